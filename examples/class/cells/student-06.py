# %% [markdown]
# # Homework 4: from three tables to one answer
# I work in Python.

# %%
import matplotlib.pyplot as plt
import pandas as pd

# %% [markdown]
# ## Part 1: Import

# %%
customers = pd.read_csv("data/customers.csv", parse_dates=["signup_date"])
orders = pd.read_csv("data/orders.csv", parse_dates=["order_date"])
products = pd.read_csv("data/products.csv")

for name, table in {"customers": customers, "orders": orders, "products": products}.items():
    print(f"{name}: {table.shape[0]} rows, {table.shape[1]} columns")
#> out customers: 96 rows, 3 columns
#> out orders: 420 rows, 5 columns
#> out products: 22 rows, 3 columns

# %%
orders.head(6)
#> show orders

# %%
missing = sum(int(table.isna().sum().sum()) for table in (customers, orders, products))
print(missing)
#> out «missing»

# %% [markdown]
# The files look complete. There are fewer customers than I expected for «order_details.rows» orders, so many must have ordered more than once.
#
# ## Part 2: Join
# A left join keeps all orders. The `indicator` tells me where each row came from.

# %%
with_customer = orders.merge(customers, how="left", on="customer_id", indicator="customer_match")
order_details = with_customer.merge(products, how="left", on="product_id", indicator="product_match")
print(len(order_details))
#> out «order_details.rows»

# %%
unmatched_orders = order_details.query("customer_match == 'left_only' or product_match == 'left_only'")
print("orders without a partner:", len(unmatched_orders))
#> out orders without a partner: «unmatched_orders.rows»

# %% [markdown]
# «order_details.rows» orders before, «order_details.rows» after, «unmatched_orders.rows» without a partner.
#
# ## Part 3: Summarise

# %%
order_details["revenue"] = order_details["quantity"] * order_details["unit_price"]
sales = order_details.dropna(subset=["revenue"]).copy()
sales["region"] = sales["region"].fillna("unknown")

total_revenue = sales["revenue"].sum()
print(f"{total_revenue:.2f}")
#> out «total_revenue|%.2f»

# %%
average_order = total_revenue / len(sales)
average_order
#> plain np.float64(«average_order»)

# %%
measures = dict(orders=("order_id", "count"), revenue=("revenue", "sum"), average_order_value=("revenue", "mean"))
region_summary = sales.groupby("region").agg(**measures).sort_values("revenue", ascending=False).reset_index()
region_summary
#> show region_summary

# %%
category_summary = sales.groupby("category").agg(**measures).sort_values("revenue", ascending=False).reset_index()
print(category_summary)
#> print category_summary

# %% [markdown]
# Check: the two tables must add up to the same total.

# %%
print(round(region_summary["revenue"].sum(), 2) == round(category_summary["revenue"].sum(), 2))
#> out True

# %%
top_region = region_summary.loc[0, "region"]
top_region
#> value top_region

# %% [markdown]
# ## Part 4: Plot

# %%
fig, ax = plt.subplots(figsize=(8, 4))
ax.bar(category_summary["category"], category_summary["revenue"], color="tab:green")
ax.set_title("Revenue by product category")
ax.set_xlabel("Category")
ax.set_ylabel("Revenue (EUR)")
plt.tight_layout()
plt.show()
#> picture category_summary

# %% [markdown]
# ## Part 5: Reflect

# %% [markdown]
# **(a) What would an inner join have hidden?**
#
# The «unmatched_orders.rows» orders without a partner. I first grouped without `fillna` and the region table was «unknown_revenue|%.2f» EUR short, because pandas leaves
# out the rows where the region is missing. I only noticed it because I compared the two totals.

# %% [markdown]
# **(b) Which summary would you show to the owner of the shop, and why?**
#
# The category summary, because the shop decides what to buy by category. Garden is first with «garden_share|%.0f» % of the revenue from «garden_orders_share|%.0f» % of the orders.

# %% [markdown]
# **(c) Name one limit of this data and what you would collect next.**
#
# The data has no returns. If customers send garden furniture back often, my answer in (b) could be wrong, so I would collect returns next.
