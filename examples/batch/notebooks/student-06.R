# %% [markdown]
# # Homework 4: from three tables to one answer

# %%
library(dplyr)
library(readr)
library(ggplot2)

# %% [markdown]
# ## Part 1: Import

# %%
customers <- read_csv("data/customers.csv")
orders <- read_csv("data/orders.csv")
products <- read_csv("data/products.csv")
glimpse(customers)
glimpse(orders)
glimpse(products)
summary(is.na(orders))

# %% [markdown]
# ## Part 2: Join

# %%
order_details <- orders %>%
  left_join(customers, by = "customer_id") %>%
  left_join(products, by = "product_id")

nrow(orders)
nrow(order_details)

# %% [markdown]
# The row count stays at 420, so there are no doubles in the keys. For the orders without a partner I use an anti join:

# %%
unmatched_orders <- orders %>% anti_join(customers, by = "customer_id")
nrow(unmatched_orders)

# %% [markdown]
# 9 orders have no customer.
#
# ## Part 3: Summarise

# %%
order_details <- order_details %>% mutate(revenue = quantity * unit_price)

region_summary <- order_details %>%
  group_by(region) %>%
  summarise(
    orders = n(),
    revenue = sum(revenue),
    average_order_value = mean(revenue)
  ) %>%
  arrange(desc(revenue))
region_summary

# %% [markdown]
# North is NA. I first thought this was an error in the file, but an order without a product has no price, and NA plus anything is NA.
# So I take these orders out of the sum:

# %%
region_summary <- order_details %>%
  filter(!is.na(revenue)) %>%
  group_by(region) %>%
  summarise(
    orders = n(),
    average_order_value = mean(revenue),
    revenue = sum(revenue)
  ) %>%
  arrange(desc(revenue))
region_summary

# %% [markdown]
# I also had to swap two lines: `mean(revenue)` after `revenue = sum(revenue)` takes the mean of the sum, which is the sum again.

# %%
category_summary <- order_details %>%
  filter(!is.na(revenue)) %>%
  group_by(category) %>%
  summarise(orders = n(), average_order_value = mean(revenue), revenue = sum(revenue)) %>%
  arrange(desc(revenue))
category_summary

# %% [markdown]
# ## Part 4: Plot

# %%
ggplot(category_summary, aes(x = category, y = revenue)) +
  geom_bar(stat = "identity", fill = "darkorange") +
  labs(title = "Revenue by category", x = "Product category", y = "Revenue in EUR")

# %% [markdown]
# ## Part 5: Reflect
# (a) With an inner join I would not have seen that North was NA and I would not have asked why. The join hides the problem instead of
# solving it. On the other hand the inner join gives almost the same ranking here.
#
# (b) I would show category_summary because Garden (about 14,700 EUR) is more than Kitchen and Office together, and the owner can
# decide what to put on the first page of the shop.
#
# (c) We know only the region of a customer and not how they found the shop. I would ask new customers where they heard of it.
