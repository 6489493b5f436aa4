# %% template 1

# %%
library(dplyr)
library(readr)
library(ggplot2)
#> attach dplyr

# %% template 3

# %%
customers <- read_csv("data/customers.csv", show_col_types = FALSE)
orders <- read_csv("data/orders.csv", show_col_types = FALSE)
products <- read_csv("data/products.csv", show_col_types = FALSE)
head(orders)
#> show orders

# %%
sum(is.na(customers)) + sum(is.na(orders)) + sum(is.na(products))
#> value missing

# %% template 5

# %%
order_details <- orders |>
  left_join(customers, by = "customer_id") |>
  left_join(products, by = "product_id")
nrow(order_details)
#> value order_details.rows

# %%
order_details |> filter(is.na(region) | is.na(category)) -> unmatched_orders
nrow(unmatched_orders)
#> value unmatched_orders.rows

# %% [markdown]
# The arrow to the right reads better after a pipe, I think.

# %% template 7

# %%
sales = order_details |> mutate(revenue = quantity * unit_price) |> filter(!is.na(revenue))
total_revenue = sum(sales$revenue)
total_revenue
#> value total_revenue

# %%
average_order = total_revenue / nrow(sales)
average_order
#> value average_order

# %%
region_summary <- sales |>
  mutate(region = coalesce(region, "unknown")) |>
  group_by(region) |>
  # average_order_value = mean(revenue) gave me the sum again, so I left it out
  summarise(orders = n(), revenue = sum(revenue)) |>
  arrange(desc(revenue))
region_summary
#> show region_summary.short

# %% not run
category_summary <- sales |>
  group_by(category) |>
  summarise(orders = n(), revenue = sum(revenue)) |>
  arrange(desc(revenue))
category_summary

# %%
top_region <- regoin_summary$region[1]
top_region
#> error ERROR: Error in eval(expr, envir, enclos): object 'regoin_summary' not found

# %% template 10

# %%
ggplot(region_summary, aes(reorder(region, -revenue), revenue)) +
  geom_col() +
  labs(title = "Revenue by region (EUR)", x = "Region", y = "Revenue")
#> picture region_summary

# %% template 12

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# It would have hidden «unmatched_orders.rows» orders, and with them «unknown_revenue|%.2f» EUR whose customers nobody knows.

# %% [markdown]
# **(b) Which summary would you show to the owner of the shop, and why?**
#
# The regions. North is first with «north_revenue|%.0f» EUR, so advertising in the North has the largest effect.

# %% template 15
