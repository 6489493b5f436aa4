# %% [markdown]
# # Homework 4: from three tables to one answer
# Solution. Another way that gives the same results is as good.

# %%
library(dplyr)
library(readr)
library(ggplot2)

# %% [markdown]
# ## Part 1: Import

# %%
customers <- read_csv("data/customers.csv", show_col_types = FALSE)
orders <- read_csv("data/orders.csv", show_col_types = FALSE)
products <- read_csv("data/products.csv", show_col_types = FALSE)
head(orders)
#> show orders

# %%
sum(is.na(customers), is.na(orders), is.na(products))
#> value missing

# %% [markdown]
# ## Part 2: Join

# %%
order_details <- orders |>
  left_join(customers, by = "customer_id") |>
  left_join(products, by = "product_id")
nrow(order_details)
#> value order_details.rows

# %%
unmatched_orders <- order_details |> filter(is.na(region) | is.na(category))
nrow(unmatched_orders) # 9 without a customer, 5 without a product
#> value unmatched_orders.rows

# %% [markdown]
# ## Part 3: Summarise

# %%
order_details <- order_details |> mutate(revenue = quantity * unit_price)
sales <- order_details |> filter(!is.na(revenue))
total_revenue <- sum(sales$revenue)
total_revenue
#> value total_revenue

# %%
average_order <- total_revenue / nrow(sales)
average_order
#> value average_order

# %%
region_summary <- sales |>
  mutate(region = coalesce(region, "unknown")) |>
  group_by(region) |>
  summarise(orders = n(), revenue = sum(revenue), average_order_value = revenue / orders) |>
  arrange(desc(revenue))
region_summary
#> show region_summary

# %%
category_summary <- sales |>
  group_by(category) |>
  summarise(orders = n(), revenue = sum(revenue), average_order_value = revenue / orders) |>
  arrange(desc(revenue))
category_summary
#> show category_summary

# %%
top_region <- region_summary$region[1]
top_region
#> value top_region

# %% [markdown]
# ## Part 4: Plot

# %%
ggplot(region_summary, aes(x = reorder(region, revenue), y = revenue)) +
  geom_col(fill = "steelblue") +
  coord_flip() +
  labs(title = "Revenue by region", x = "Region", y = "Revenue (EUR)")
#> picture region_summary

# %% [markdown]
# ## Part 5: Reflect

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# The «unmatched_orders.rows» orders without a partner: «unmatched.customer» without a customer, which are «unknown_revenue|%.2f» EUR or «unknown_share|%.1f» % of the revenue, and «unmatched.product» whose price nobody knows.

# %% [markdown]
# **(b) Which summary would you show to the owner of the shop, and why?**
#
# The one per category: Garden brings in «garden_share|%.0f» % of the revenue with «garden_orders_share|%.0f» % of the orders, and the owner can decide what to buy.

# %% [markdown]
# **(c) Name one limit of this data and what you would collect next.**
#
# Three months and no costs: revenue is not profit, and spring is garden season. Purchase prices and a whole year come next.
