import matplotlib.pyplot as plt
import pandas as pd

customers = pd.read_csv("data/customers.csv")
orders = pd.read_csv("data/orders.csv")
products = pd.read_csv("data/products.csv")
for table in (customers, orders, products):
    print(table.shape)
    print(table.isna().sum())

order_details = orders.merge(customers, on="customer_id", how="left", validate="many_to_one").merge(
    products, on="product_id", how="left", validate="many_to_one"
)
assert len(order_details) == len(orders)
unmatched_orders = order_details[order_details["region"].isna() | order_details["category"].isna()]
order_details["revenue"] = order_details["quantity"] * order_details["unit_price"]


def summarise_by(column):
    summary = order_details.groupby(column, dropna=False).agg(
        orders=("order_id", "count"), revenue=("revenue", "sum"), priced=("revenue", "count")
    )
    summary["average_order_value"] = summary["revenue"] / summary.pop("priced")
    return summary.sort_values("revenue", ascending=False)


region_summary = summarise_by("region")
category_summary = summarise_by("category")

ax = region_summary["revenue"].sort_values().plot.barh(color="steelblue")
ax.set(title="Revenue by region", xlabel="Revenue (EUR)", ylabel="Region")
plt.show()
