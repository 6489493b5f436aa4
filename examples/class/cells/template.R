# %% [markdown]
# # Homework 4: from three tables to one answer
#
# A small online shop keeps its data in three files: `customers.csv` (`customer_id`, `region`, `signup_date`), `orders.csv`
# (`order_id`, `customer_id`, `product_id`, `order_date`, `quantity`) and `products.csv` (`product_id`, `category`, `unit_price` in EUR).
# Some orders name a customer or a product that the other files do not have.
#
# Answer the shop's question: **which regions and categories bring in the money, and what should the shop look at next?**
# Work in R (dplyr, ggplot2) or in Python (pandas, matplotlib). Keep the headings and the names of the variables.

# %% not run
library(dplyr)
library(readr)
library(ggplot2)

# %% [markdown]
# ## Part 1: Import
# Read the three files. Show the first six orders, and the number of missing values in all three tables together.

# %% not run
customers <- NULL # read data/customers.csv
orders <- NULL # read data/orders.csv
products <- NULL # read data/products.csv

# %% [markdown]
# ## Part 2: Join
# Build `order_details`: every order with its customer and its product. Show how many rows it has.
# Then build `unmatched_orders`, the orders without a customer or without a product, and show how many there are.

# %% not run
order_details <- NULL
unmatched_orders <- NULL

# %% [markdown]
# ## Part 3: Summarise
# Add `revenue` (quantity times unit price); leave orders without a price out of all that follows. Show `total_revenue` and
# `average_order` (revenue per order), `region_summary` and `category_summary` (columns `orders`, `revenue`, `average_order_value`,
# sorted by revenue; unknown customers are the region `unknown`), and `top_region`, the name of the first region.

# %% not run
total_revenue <- NULL
average_order <- NULL

# %% not run
region_summary <- NULL
category_summary <- NULL
top_region <- NULL

# %% [markdown]
# ## Part 4: Plot
# One chart of revenue by region or by category, with a title, named axes and units.

# %% not run
# your chart

# %% [markdown]
# ## Part 5: Reflect
# Two or three sentences each.

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# [your answer]

# %% [markdown]
# **(b) Which summary would you show to the owner of the shop, and why?**
#
# [your answer]

# %% [markdown]
# **(c) Name one limit of this data and what you would collect next.**
#
# [your answer]
