# %% template 1

# %%
library(tidyverse)
#> attach tidyverse

# %% template 3

# %%
customers <- read.csv("C:/Users/student/Documents/homework4/data/customers.csv")
orders <- read.csv("C:/Users/student/Documents/homework4/data/orders.csv")
products <- read.csv("C:/Users/student/Documents/homework4/data/products.csv")

head(customers)
head(orders)
head(products)
dim(orders)
#> frame customers
#> frame orders
#> frame products
#> text <ol class=list-inline><li>420</li><li>5</li></ol> :: [1] 420   5

# %% template 5

# %% [markdown]
# I put the tables together with inner joins so that there are no missing values.

# %%
order_details <- inner_join(orders, customers)
order_details <- inner_join(order_details, products)

nrow(order_details)
#> err Joining with `by = join_by(customer_id)`
#> err Joining with `by = join_by(product_id)`
#> value inner.rows

# %% [markdown]
# It says "Joining with `by = join_by(customer_id)`" and that is right.
# «order_details.rows» rows became «inner.rows» rows, so «unmatched_orders.rows» were wrong rows and are gone now.

# %%
nrow(orders) - nrow(order_details)
#> value unmatched_orders.rows

# %% template 7

# %%
total_revenue <- sum(order_details$unit_price)
total_revenue
#> value weak.total_revenue

# %%
average_order <- mean(order_details$unit_price)
average_order
#> value weak.average_order

# %%
region_summary <- order_details %>%
  group_by(region) %>%
  summarise(revenue = sum(unit_price), average_order_value = mean(unit_price))

region_summary
#> show weak.region_summary

# %% [markdown]
# I tried it also with aggregate() to see if it is the same and it is:

# %%
aggregate(unit_price ~ region, data = order_details, FUN = sum)
#> frame weak.aggregate

# %% [markdown]
# The best region is North.

# %% template 10

# %% template 11

# %% template 12

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# An inner join would hide rows that do not match. I used it because missing values make problems in the sum.

# %% template 14

# %% template 15
