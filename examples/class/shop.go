package class

import (
	"bytes"
	"fmt"

	"tandem/examples/class/table"
)

// shop is the shop's tables and what can be found out from them, right and wrong, by the names that the cells use.
type shop struct {
	customers, orders, products *table.Table
	details                     *table.Table // every order with its customer and product
	sales                       *table.Table // of these, those with a price; unknown customers are a region of their own
	results                     map[string]any
}

func openShop() (*shop, error) {
	s := &shop{results: map[string]any{"injection": injection}}
	for name, t := range map[string]**table.Table{"customers": &s.customers, "orders": &s.orders, "products": &s.products} {
		data, err := files.ReadFile("data/" + name + ".csv")
		if err != nil {
			return nil, fmt.Errorf("read shop: %w", err)
		}
		if *t, err = table.ReadCSV(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		s.results[name] = (*t).Head(6)
	}
	s.details = s.orders.LeftJoin(s.customers, "customer_id").LeftJoin(s.products, "product_id")
	s.sales = s.details.
		Where(func(r table.Row) bool { return !r.Missing("unit_price") }).
		With("revenue", func(r table.Row) any { return r.Number("quantity") * r.Number("unit_price") }).
		With("region", func(r table.Row) any {
			if r.Missing("region") {
				return "unknown"
			}
			return r.Get("region")
		})
	s.right()
	s.wrong()
	return s, nil
}

// summary is what the assignment asks for, per region or category.
func summary(sales *table.Table, by string) *table.Table {
	return sales.Group(by, table.Count("orders"), table.Sum("revenue", "revenue"), table.Mean("average_order_value", "revenue")).Descending("revenue")
}

// right computes what the solution has, and figures that the answers quote.
func (s *shop) right() {
	noCustomer := s.details.Where(func(r table.Row) bool { return r.Missing("region") })
	noProduct := s.details.Where(func(r table.Row) bool { return r.Missing("category") })
	total := s.sales.Sum("revenue")
	regions, categories := summary(s.sales, "region"), summary(s.sales, "category")
	top := regions.Rows[0][0]

	s.results["missing"] = 0
	s.results["order_details.rows"] = len(s.details.Rows)
	s.results["unmatched_orders.rows"] = len(noCustomer.Rows) + len(noProduct.Rows)
	s.results["unmatched.customer"] = len(noCustomer.Rows)
	s.results["unmatched.product"] = len(noProduct.Rows)
	s.results["unmatched"] = &table.Table{Columns: []string{"missing", "n"}, Rows: [][]any{{"customer", len(noCustomer.Rows)}, {"product", len(noProduct.Rows)}}}
	s.results["total_revenue"] = total
	s.results["average_order"] = total / float64(len(s.sales.Rows))
	s.results["region_summary"] = regions
	s.results["category_summary"] = categories
	s.results["top_region"] = top

	of := func(t *table.Table, name string) *table.Table {
		by := t.Columns[0]
		return t.Where(func(r table.Row) bool { return r.Get(by) == name })
	}
	garden, unknown := of(categories, "Garden"), of(regions, "unknown")
	s.results["garden_revenue"] = garden.Sum("revenue")
	s.results["garden_share"] = 100 * garden.Sum("revenue") / total
	s.results["garden_orders_share"] = 100 * garden.Sum("orders") / float64(len(s.sales.Rows))
	s.results["unknown_revenue"] = unknown.Sum("revenue")
	s.results["unknown_share"] = 100 * unknown.Sum("revenue") / total
	s.results["unknown_average"] = unknown.Sum("average_order_value")
	s.results["north_revenue"] = of(regions, "North").Sum("revenue")
	s.results["north_average"] = of(regions, "North").Sum("average_order_value")
	s.results["west_average"] = of(regions, "West").Sum("average_order_value")
}

// wrong computes what goes wrong in the submissions, and what is right in another form.
func (s *shop) wrong() {
	regions, categories := summary(s.sales, "region"), summary(s.sales, "category")
	columns := []string{"region", "orders", "average_order_value", "revenue"}
	s.results["region_summary.reordered"] = regions.Select("revenue", "region", "average_order_value", "orders")
	s.results["region_summary.short"] = regions.Select("region", "orders", "revenue")
	s.results["region_summary.known"] = regions.Where(func(r table.Row) bool { return r.Get("region") != "unknown" }).Select(columns...)
	s.results["category_summary.ascending"] = categories.Ascending("revenue")
	columns[0] = "category"
	s.results["category_summary.other"] = categories.Select(columns...)
	s.results["average_order.all"] = s.sales.Sum("revenue") / float64(len(s.details.Rows))

	// student-02 joined by inner joins and forgot the quantity
	inner := s.details.Where(func(r table.Row) bool { return !r.Missing("region") && !r.Missing("category") })
	s.results["inner.rows"] = len(inner.Rows)
	s.results["weak.total_revenue"] = inner.Sum("unit_price")
	s.results["weak.average_order"] = inner.Sum("unit_price") / float64(len(inner.Rows))
	s.results["weak.region_summary"] = inner.Group("region", table.Sum("revenue", "unit_price"), table.Mean("average_order_value", "unit_price"))
	s.results["weak.aggregate"] = inner.Group("region", table.Sum("unit_price", "unit_price"))
}
