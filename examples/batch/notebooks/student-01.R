# %% [markdown]
# # Homework 4: from three tables to one answer

# %%
library(dplyr)
library(readr)
library(ggplot2)

# %% [markdown]
# ## Part 1: Import
# I read the files with readr so that the dates come in as dates. I also look at missing values per column,
# because the text says that some orders have no partner and I want to know whether the ids themselves are complete.

# %%
customers <- read_csv("data/customers.csv", show_col_types = FALSE)
orders <- read_csv("data/orders.csv", show_col_types = FALSE)
products <- read_csv("data/products.csv", show_col_types = FALSE)

tables <- list(customers = customers, orders = orders, products = products)
sapply(tables, dim)
lapply(tables, function(t) colSums(is.na(t)))

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

no_customer <- anti_join(orders, customers, by = join_by(customer_id))
no_product <- anti_join(orders, products, by = join_by(product_id))
unmatched_orders <- bind_rows(
  mutate(no_customer, missing = "customer"),
  mutate(no_product, missing = "product")
)
count(unmatched_orders, missing)

# %% [markdown]
# 9 orders have no customer and 5 have no product: 14 of 420, or 3.3 %.
#
# ## Part 3: Summarise

# %%
order_details <- order_details |>
  mutate(
    region = coalesce(region, "unknown"),
    category = coalesce(category, "unknown"),
    revenue = quantity * unit_price
  )

region_summary <- order_details |>
  group_by(region) |>
  summarise(
    orders = n(),
    without_price = sum(is.na(revenue)),
    revenue = sum(revenue, na.rm = TRUE),
    average_order_value = revenue / (orders - without_price)
  ) |>
  arrange(desc(revenue))

category_summary <- order_details |>
  filter(category != "unknown") |>
  group_by(category) |>
  summarise(orders = n(), revenue = sum(revenue), average_order_value = mean(revenue)) |>
  arrange(desc(revenue))

region_summary
category_summary

# %% [markdown]
# ## Part 4: Plot

# %%
ggplot(region_summary, aes(x = revenue / 1000, y = reorder(region, revenue))) +
  geom_col(fill = "#3b6ea5") +
  geom_text(aes(label = round(revenue / 1000, 1)), hjust = -0.2) +
  labs(
    title = "Two regions bring in more than half of the revenue",
    subtitle = "All orders with a known price",
    x = "Revenue (thousand EUR)", y = NULL
  ) +
  theme_minimal()

# %% [markdown]
# ## Part 5: Reflect
# (a) An inner join would have dropped the 14 orders without telling me. They are only 3.3 % of the orders, but the nine without a
# customer are 5.1 % of the revenue, so the totals per category would have been too low and nobody would have noticed.
#
# (b) I would show the region summary, because the owner can act on it: the North sells the most but its average order is the
# smallest (31 EUR against 47 EUR in the West). That says "sell bigger baskets in the North", which the category table does not.
#
# (c) There is no cost in the data, so I know revenue and not profit. I would collect the purchase price of each product next.
