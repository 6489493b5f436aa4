# %% [markdown]
# # Homework 4: from three tables to one answer

# %%
library(tidyverse)

# %% [markdown]
# ## Part 1: Import

# %%
customers <- read.csv("C:/Users/student/Documents/homework4/data/customers.csv")
orders <- read.csv("C:/Users/student/Documents/homework4/data/orders.csv")
products <- read.csv("C:/Users/student/Documents/homework4/data/products.csv")

head(customers)
head(orders)
head(products)
dim(orders)

# %% [markdown]
# ## Part 2: Join
# I put the tables together with inner joins so that there are no missing values.

# %%
order_details <- inner_join(orders, customers)
order_details <- inner_join(order_details, products)

dim(orders)
dim(order_details)

# %% [markdown]
# It says "Joining with `by = join_by(customer_id)`" and that is right.
# 420 rows became 406 rows, so 14 were wrong rows and are gone now.

# %%
unmatched_orders <- 14

# %% [markdown]
# ## Part 3: Summarise

# %%
order_details$revenue <- order_details$quantity * order_details$unit_price

region_summary <- order_details %>%
  group_by(region) %>%
  summarise(revenue = sum(revenue), average_order_value = mean(unit_price))

region_summary

# %%
category_summary <- order_details %>%
  group_by(category) %>%
  summarise(orders = n(), revenue = sum(revenue))

category_summary[order(-category_summary$revenue), ]

# %% [markdown]
# The best region is North. The best category is Garden.
#
# I tried it also with aggregate() to see if it is the same and it is:

# %%
aggregate(revenue ~ region, data = order_details, FUN = sum)

# %% [markdown]
# ## Part 4: Plot

# %%
pie_data <- region_summary
ggplot(pie_data, aes(x = "", y = revenue, fill = region)) +
  geom_bar(stat = "identity") +
  coord_polar("y") +
  ggtitle("Revenue")

# %% [markdown]
# ## Part 5: Reflect
# (a) An inner join would hide rows that do not match. I used it because missing values make problems in the sum.
#
# (b) I would show the region summary because it is the most interesting one and you can see everything.
#
# (c) [your answer]
