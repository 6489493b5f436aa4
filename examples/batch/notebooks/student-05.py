# %% [markdown]
# # Homework 4: from three tables to one answer

# %%
import pandas as pd
import matplotlib.pyplot as plt

# %% [markdown]
# ## Part 1: Import

# %%
customers = pd.read_csv("data/customers.csv")
orders = pd.read_csv("data/orders.csv")
products = pd.read_csv("data/products.csv")
print(customers.shape)
print(orders.shape)
print(products.shape)

# %% [markdown]
# ## Part 2: Join

# %%
order_details = pd.merge(orders, customers, on="customer_id", how="outer")
order_details = pd.merge(order_details, products, on="product_id", how="outer")
print(order_details.shape)

# %% [markdown]
# I got 447 rows. There are 420 orders so I think that there are 27 unmatched orders.

# %%
unmatched_orders = order_details[order_details.isna().any(axis=1)]
print(len(unmatched_orders))

# %% [markdown]
# This gives 41 and not 27. I do not understand why. Maybe because of the two merges?
#
# ## Part 3: Summarise

# %%
order_details = order_details.fillna(0)
order_details["revenue"] = order_details["quantity"] * order_details["unit_price"]

# %%
regions = []
revenues = []
counts = []
for r in order_details["region"].unique():
    total = 0
    n = 0
    for i in range(len(order_details)):
        if order_details["region"].iloc[i] == r:
            total = total + order_details["revenue"].iloc[i]
            n = n + 1
    regions.append(r)
    revenues.append(total)
    counts.append(n)
region_summary = pd.DataFrame({"region": regions, "orders": counts, "revenue": revenues})
region_summary["average_order_value"] = region_summary["revenue"] / region_summary["orders"]
print(region_summary)

# %% [markdown]
# There is a region called 0. It comes from fillna. I take it out:

# %%
region_summary = region_summary[region_summary["region"] != 0]

# %%
category_summary = order_details.groupby("category")["revenue"].sum()
print(category_summary)

# %% [markdown]
# ## Part 4: Plot

# %%
plt.plot(region_summary["region"], region_summary["revenue"])
plt.title("revenue")
plt.savefig("revenue.png")

# %% [markdown]
# ## Part 5: Reflect
# (a) An inner join would have hidden the rows that are not in both tables. I used outer and then I had too many rows, because customers
# who never ordered are in there as well. I found this out only at the end and had no time to change it.
#
# (b) The region summary, North has the most revenue.
#
# (c) A limit is that it is only one shop. I would collect other shops.
