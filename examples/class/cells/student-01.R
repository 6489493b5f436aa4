# %% [markdown]
# # Homework 4: from three tables to one answer

# %%
library(dplyr)
library(readr)
library(ggplot2)
#> attach dplyr

# %% [markdown]
# ## Part 1: Import
# I read the files with readr so that the dates come in as dates. I also look at missing values per table, because the text says
# that some orders have no partner and I want to know whether the ids themselves are complete.

# %%
customers <- read_csv("data/customers.csv", show_col_types = FALSE)
orders <- read_csv("data/orders.csv", show_col_types = FALSE)
products <- read_csv("data/products.csv", show_col_types = FALSE)
head(orders)
#> show orders

# %%
tables <- list(customers = customers, orders = orders, products = products)
sum(sapply(tables, function(t) sum(is.na(t))))
#> value missing

# %% [markdown]
# No id is missing, so an order without a partner is a real gap in the other table and not a reading problem.
#
# ## Part 2: Join
# I take left joins and start from `orders`, because an order is money that was really paid, whether or not I know who paid it.

# %%
order_details <- orders |>
  left_join(customers, by = join_by(customer_id)) |>
  left_join(products, by = join_by(product_id))

# a join must not make orders up and must not lose any
stopifnot(nrow(order_details) == nrow(orders), !anyDuplicated(order_details$order_id))
nrow(order_details)
#> value order_details.rows

# %%
no_customer <- anti_join(orders, customers, by = join_by(customer_id))
no_product <- anti_join(orders, products, by = join_by(product_id))
unmatched_orders <- bind_rows(
  mutate(no_customer, missing = "customer"),
  mutate(no_product, missing = "product")
)
nrow(unmatched_orders)
count(unmatched_orders, missing)
#> value unmatched_orders.rows
#> show unmatched

# %% [markdown]
# «unmatched.customer» orders have no customer and «unmatched.product» have no product: «unmatched_orders.rows» of «order_details.rows», or 3.3 %.
#
# ## Part 3: Summarise
# I ignore the «unmatched.product» orders without a price, as the text asks.

# %%
sales <- order_details |>
  mutate(region = coalesce(region, "unknown"), revenue = quantity * unit_price) |>
  filter(!is.na(revenue))

total_revenue <- sum(sales$revenue)
total_revenue
#> value total_revenue

# %%
average_order <- mean(sales$revenue)
average_order
#> value average_order

# %%
by_group <- function(column) {
  sales |>
    group_by({{ column }}) |>
    summarise(orders = n(), average_order_value = mean(revenue), revenue = sum(revenue)) |>
    relocate(revenue, .after = orders) |>
    arrange(desc(revenue))
}
region_summary <- by_group(region)
region_summary
#> show region_summary

# %%
category_summary <- by_group(category)
category_summary
#> show category_summary

# %%
# both must add up to the same total
stopifnot(all.equal(sum(region_summary$revenue), sum(category_summary$revenue)))
top_region <- region_summary |> slice(1) |> pull(region)
top_region
#> value top_region

# %% [markdown]
# ## Part 4: Plot

# %%
ggplot(region_summary, aes(x = revenue / 1000, y = reorder(region, revenue))) +
  geom_col(fill = "#3b6ea5") +
  geom_text(aes(label = round(revenue / 1000, 1)), hjust = -0.2) +
  labs(
    title = "Two regions bring in more than half of the revenue",
    subtitle = "All orders with a known price",
    x = "Revenue (thousand EUR)", y = "Region"
  ) +
  theme_minimal()
#> picture region_summary

# %% [markdown]
# ## Part 5: Reflect

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# An inner join would have dropped «unmatched_orders.rows» orders without telling me. The «unmatched.customer» without a customer are only 2 % of the orders but «unknown_share|%.1f» % of the
# revenue (their average is «unknown_average|%.0f» EUR), so the totals per category would have been too low and nobody would have noticed. The shop should find out who buys without an account.

# %% [markdown]
# **(b) Which summary would you show to the owner of the shop, and why?**
#
# The region summary, because the owner can act on it: the North sells the most but its average order is the smallest («north_average|%.0f» EUR
# against «west_average|%.0f» EUR in the West). That says "sell bigger baskets in the North", which the category table does not.

# %% [markdown]
# **(c) Name one limit of this data and what you would collect next.**
#
# There is no cost in the data, so I know revenue and not profit. I would collect the purchase price of each product next, and see
# whether Garden («garden_share|%.0f» % of the revenue) is still first after costs.
