# %% [markdown]
# # Homework 4: from three tables to one answer

# %%
library(dplyr)
library(readr)
library(ggplot2)

# %% [markdown]
# ## Part 1: Import

# %%
customers <- NULL # read data/customers.csv
orders <- NULL # read data/orders.csv
products <- NULL # read data/products.csv

# %% [markdown]
# ## Part 2: Join

# %%
order_details <- NULL
unmatched_orders <- NULL

# %% [markdown]
# ## Part 3: Summarise

# %%
region_summary <- NULL
category_summary <- NULL

# %% [markdown]
# ## Part 4: Plot

# %%

# %% [markdown]
# ## Part 5: Reflect
# (a) [your answer]
# (b) [your answer]
# (c) [your answer]
