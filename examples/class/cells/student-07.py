# %% template 1

# %%
import pandas as pd
import matplotlib.pyplot as plt

# %% template 3

# %%
customers = pd.read_csv("data/customers.csv")
orders = pd.read_csv("data/orders.csv")
products = pd.read_csv("data/products.csv")
orders.head(6)
#> show orders

# %%
print(customers.isna().sum().sum() + orders.isna().sum().sum() + products.isna().sum().sum())
#> out «missing»

# %% template 5

# %%
order_details = pd.merge(orders, customers, on="customer_id", how="left")
order_details = pd.merge(order_details, products, on="product_id", how="left")
print(len(order_details))
#> out «order_details.rows»

# %%
unmatched_orders = order_details[order_details["region"].isna() | order_details["category"].isna()]
print(len(unmatched_orders))
#> out «unmatched_orders.rows»

# %% template 7

# %%
order_details["revenue"] = order_details["quantity"] * order_details["unit_price"]
sales = order_details[order_details["revenue"].notna()]
# total_revenue = sales["revenue"].sum()

# %% [markdown]
# The average is shown without cents because nobody pays with cents any more.

# %%
average_order = sales["revenue"].mean()
print(round(average_order))
#> out «average_order|%.0f»

# %% [markdown]
# I put the revenue first because it is the most important column.

# %%
region_summary = (
    sales.assign(region=sales["region"].fillna("unknown"))
    .groupby("region", as_index=False)
    .agg(orders=("order_id", "count"), revenue=("revenue", "sum"), average_order_value=("revenue", "mean"))
    .sort_values("revenue", ascending=False, ignore_index=True)
)
region_summary = region_summary[["revenue", "region", "average_order_value", "orders"]]
region_summary
#> show region_summary.reordered

# %% [markdown]
# For the categories I sort from small to large, so that the chart has the largest bar on top.

# %%
category_summary = (
    sales.groupby("category", as_index=False)
    .agg(orders=("order_id", "count"), revenue=("revenue", "sum"), average_order_value=("revenue", "mean"))
    .sort_values("revenue", ignore_index=True)
)
category_summary
#> show category_summary.ascending

# %%
print("top_region = North")
#> out top_region = North

# %% template 10

# %%
plt.barh(category_summary["category"], category_summary["revenue"])
plt.title("Revenue by category")
plt.xlabel("Revenue (EUR)")
plt.ylabel("Category")
plt.show()
#> picture category_summary.ascending

# %% template 12

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# «unmatched_orders.rows» orders. «unmatched.customer» of them have no customer, and these are large orders.

# %% [markdown]
# **(b) Which summary would you show to the owner of the shop, and why?**
#
# The category summary, since Garden alone has «garden_revenue|%.0f» EUR and the owner should never run out of it.

# %% [markdown]
# **(c) Name one limit of this data and what you would collect next.**
#
# It is only spring. I would collect a whole year and look at Garden again in winter.
