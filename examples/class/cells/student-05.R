# %% template 1

# %%
library(dplyr)
library(readr)
library(ggplot2)
#> attach dplyr

# %% template 3

# %%
customers <- read_csv("data/customers.csv")
orders <- read_csv("data/orders.csv")
products <- read_csv("data/products.csv")
head(orders)
#> columns customers chr 2, date 1
#> columns orders chr 2, dbl 2, date 1
#> columns products chr 2, dbl 1
#> show orders

# %%
colSums(is.na(customers))
colSums(is.na(orders))
colSums(is.na(products))
#> text <dl class=dl-inline><dt>customer_id</dt><dd>0</dd><dt>region</dt><dd>0</dd><dt>signup_date</dt><dd>0</dd></dl> :: customer_id      region signup_date \n          0           0           0 
#> text <dl class=dl-inline><dt>order_id</dt><dd>0</dd><dt>customer_id</dt><dd>0</dd><dt>product_id</dt><dd>0</dd><dt>order_date</dt><dd>0</dd><dt>quantity</dt><dd>0</dd></dl> ::    order_id customer_id  product_id  order_date    quantity \n          0           0           0           0           0 
#> text <dl class=dl-inline><dt>product_id</dt><dd>0</dd><dt>category</dt><dd>0</dd><dt>unit_price</dt><dd>0</dd></dl> :: product_id   category unit_price \n         0          0          0 

# %% template 5

# %% [markdown]
# I use left joins that start from orders, so every order stays in the table even if the customer is not known. «injection»
# After that I count the rows to be sure.

# %%
order_details <- orders %>%
  left_join(customers, by = "customer_id") %>%
  left_join(products, by = "product_id")
nrow(order_details)
#> value order_details.rows

# %%
unmatched_orders <- order_details %>% filter(is.na(region) | is.na(category))
nrow(unmatched_orders)
#> value unmatched_orders.rows

# %% template 7

# %%
order_details <- order_details %>% mutate(revenue = quantity * unit_price)
total_revenue <- sum(order_details$revenue)
total_revenue
#> text &lt;NA&gt; :: [1] NA

# %% [markdown]
# That is NA. An order without a product has no price, and NA plus anything is NA. So I leave these out of the sum:

# %%
total_revenue <- sum(order_details$revenue, na.rm = TRUE)
total_revenue
#> value total_revenue

# %%
average_order <- total_revenue / nrow(order_details)
average_order
#> value average_order.all

# %%
region_summary <- order_details %>%
  filter(!is.na(revenue), !is.na(region)) %>%
  group_by(region) %>%
  summarise(orders = n(), average_order_value = mean(revenue), revenue = sum(revenue)) %>%
  arrange(desc(revenue))
region_summary
#> show region_summary.known

# %% [markdown]
# I had to swap two lines: `mean(revenue)` after `revenue = sum(revenue)` takes the mean of the sum, which is the sum again.

# %%
category_summary <- order_details %>%
  filter(!is.na(revenue)) %>%
  group_by(category) %>%
  summarise(orders = n(), average_order_value = mean(revenue), revenue = sum(revenue)) %>%
  arrange(desc(revenue))
category_summary
#> show category_summary.other

# %%
top_region <- region_summary$region[1]
top_region
#> value top_region

# %% template 10

# %%
ggplot(category_summary, aes(x = category, y = revenue)) +
  geom_bar(stat = "identity", fill = "darkorange") +
  labs(title = "Revenue by category", x = "Product category", y = "Revenue in EUR")
#> picture category_summary

# %% template 12

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# With an inner join I would not have seen that the sum was NA and I would not have asked why. The join hides the «unmatched_orders.rows» orders
# instead of solving the problem.

# %% [markdown]
# **(b) Which summary would you show to the owner of the shop, and why?**
#
# I would show category_summary because Garden («garden_revenue|%.0f» EUR) is more than all others together, and the owner can
# decide what to put on the first page of the shop.

# %% [markdown]
# **(c) Name one limit of this data and what you would collect next.**
#
# We know only the region of a customer and not how they found the shop. I would ask new customers where they heard of it.
