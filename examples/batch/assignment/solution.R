library(dplyr)
library(readr)
library(ggplot2)

customers <- read_csv("data/customers.csv", show_col_types = FALSE)
orders <- read_csv("data/orders.csv", show_col_types = FALSE)
products <- read_csv("data/products.csv", show_col_types = FALSE)
for (table in list(customers, orders, products)) {
  print(dim(table))
  print(colSums(is.na(table)))
}

order_details <- orders |>
  left_join(customers, by = "customer_id") |>
  left_join(products, by = "product_id")
stopifnot(nrow(order_details) == nrow(orders))

unmatched_orders <- order_details |> filter(is.na(region) | is.na(category))
nrow(unmatched_orders) # 14 of 420: 9 without a customer, 5 without a product

order_details <- order_details |> mutate(revenue = quantity * unit_price)

summarise_by <- function(data, column) {
  data |>
    group_by({{ column }}) |>
    summarise(
      orders = n(),
      revenue = sum(revenue, na.rm = TRUE),
      average_order_value = revenue / sum(!is.na(unit_price)),
      .groups = "drop"
    ) |>
    arrange(desc(revenue))
}
region_summary <- summarise_by(order_details, region)
category_summary <- summarise_by(order_details, category)

ggplot(region_summary, aes(x = reorder(region, revenue), y = revenue)) +
  geom_col(fill = "steelblue") +
  coord_flip() +
  labs(title = "Revenue by region", x = "Region", y = "Revenue (EUR)")
