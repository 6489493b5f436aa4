package class

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"strings"

	"tandem/examples/class/ipynb"
	"tandem/examples/class/table"
)

// look is one way to look at the shop's tables: what a student writes and what comes out. The code is written with the same values in both languages.
type look struct {
	why    string // the remark above the code
	r, py  string // the code
	result func(s *shop, v values) any
}

// values fill the holes of a look: {product}, {customer}, {region}, {category}, {month}, {n} and {price}.
type values struct {
	product, customer, region, category, month string
	n                                          int
	price                                      float64
}

func (v values) fill(text string) string {
	return strings.NewReplacer("{product}", v.product, "{customer}", v.customer, "{region}", v.region, "{category}", v.category,
		"{month}", v.month, "{n}", fmt.Sprint(v.n), "{price}", fmt.Sprint(v.price)).Replace(text)
}

func (a *author) values() values {
	cell := func(t *table.Table, column string) string {
		return pick(a, t.Select(column).Rows)[0].(string)
	}
	return values{
		product: cell(a.shop.products, "product_id"), category: cell(a.shop.products, "category"),
		customer: cell(a.shop.customers, "customer_id"), region: cell(a.shop.customers, "region"),
		month: pick(a, []string{"2024-03", "2024-04", "2024-05"}), n: 2 + a.IntN(4), price: 10 + 5*float64(a.IntN(10)),
	}
}

// is keeps the rows that have a value in a column.
func is(column, value string) func(table.Row) bool {
	return func(r table.Row) bool { return r.Get(column) == value }
}

// looks use only the three tables as they were read, so that they are right in every notebook.
var looks = []look{
	{
		"How many orders are of {n} pieces or more?",
		`orders |> filter(quantity >= {n}) |> nrow()`,
		`len(orders[orders["quantity"] >= {n}])`,
		func(s *shop, v values) any {
			return len(s.orders.Where(func(r table.Row) bool { return r.Number("quantity") >= float64(v.n) }).Rows)
		},
	},
	{
		"How often was {product} ordered? I want to see whether one product is behind it all.",
		`orders |> filter(product_id == "{product}") |> nrow()`,
		`(orders["product_id"] == "{product}").sum().item()`,
		func(s *shop, v values) any { return len(s.orders.Where(is("product_id", v.product)).Rows) },
	},
	{
		"The orders of one month, {month}, because the months may differ.",
		`orders |> filter(startsWith(as.character(order_date), "{month}")) |> nrow()`,
		`orders["order_date"].astype(str).str.startswith("{month}").sum().item()`,
		func(s *shop, v values) any {
			return len(s.orders.Where(func(r table.Row) bool { return strings.HasPrefix(r.Get("order_date").(string), v.month) }).Rows)
		},
	},
	{
		"Some customers of the {region}, to see what a customer looks like.",
		"customers |>\n  filter(region == \"{region}\") |>\n  head({n})",
		`customers[customers["region"] == "{region}"].reset_index(drop=True).head({n})`,
		func(s *shop, v values) any { return s.customers.Where(is("region", v.region)).Head(v.n) },
	},
	{
		"All that {customer} ever ordered. One customer is no proof, but a look at the rows helps me to understand them.",
		"one_customer <- orders |> filter(customer_id == \"{customer}\")\n# the order of the rows is that of the file\none_customer",
		"one_customer = orders[orders[\"customer_id\"] == \"{customer}\"].reset_index(drop=True)\n# the order of the rows is that of the file\none_customer",
		func(s *shop, v values) any { return s.orders.Where(is("customer_id", v.customer)) },
	},
	{
		"Which products of {category} cost more than {price} EUR?",
		"products |>\n  filter(category == \"{category}\", unit_price > {price}) |>\n  select(product_id, unit_price)",
		"dear = (products[\"category\"] == \"{category}\") & (products[\"unit_price\"] > {price})\nproducts.loc[dear, [\"product_id\", \"unit_price\"]].reset_index(drop=True)",
		func(s *shop, v values) any {
			return s.products.Where(func(r table.Row) bool {
				return r.Get("category") == v.category && r.Number("unit_price") > v.price
			}).Select("product_id", "unit_price")
		},
	},
	{
		"How many customers has each region? If one region is just larger, its revenue says little.",
		"customers |> group_by(region) |> summarise(customers = n())",
		`customers.groupby("region", as_index=False).agg(customers=("customer_id", "count"))`,
		func(s *shop, _ values) any { return s.customers.Group("region", table.Count("customers")) },
	},
	{
		"The mean price per category, without looking at how often a product is sold.",
		"products |> group_by(category) |> summarise(products = n(), mean_price = mean(unit_price))",
		`products.groupby("category", as_index=False).agg(products=("product_id", "count"), mean_price=("unit_price", "mean"))`,
		func(s *shop, _ values) any {
			return s.products.Group("category", table.Count("products"), table.Mean("mean_price", "unit_price"))
		},
	},
	{
		"The {n} products that are ordered most often in {month}:",
		"orders |>\n  filter(startsWith(as.character(order_date), \"{month}\")) |>\n  group_by(product_id) |>\n  summarise(orders = n()) |>\n  arrange(desc(orders)) |>\n  head({n})",
		"in_month = orders[\"order_date\"].astype(str).str.startswith(\"{month}\")\norders[in_month].groupby(\"product_id\", as_index=False).agg(orders=(\"order_id\", \"count\")).nlargest({n}, \"orders\", keep=\"first\").reset_index(drop=True)",
		func(s *shop, v values) any {
			return s.orders.Where(func(r table.Row) bool { return strings.HasPrefix(r.Get("order_date").(string), v.month) }).
				Group("product_id", table.Count("orders")).Descending("orders").Head(v.n)
		},
	},
	{
		"Did somebody buy {product} in larger numbers? Pieces in all, not orders:",
		`sum(orders$quantity[orders$product_id == "{product}"])`,
		`orders.loc[orders["product_id"] == "{product}", "quantity"].sum().item()`,
		func(s *shop, v values) any { return int(s.orders.Where(is("product_id", v.product)).Sum("quantity")) },
	},
}

// thoughts are sentences that students write around their code. They claim nothing that depends on the data.
var thoughts = []string{
	"I looked at this because the text of the homework says that some orders have no partner, and I wanted to see one with my own eyes.",
	"At first I expected more for {region}, but the number of customers there is small.",
	"This is not asked for, but it helped me to understand what one row of `orders` is.",
	"One row is one order of one product, so a customer who buys {n} different things at once has {n} rows.",
	"In the exercise of last week we had only one table, so I first had to get used to thinking about keys.",
	"I am not sure whether {category} and the other categories can be compared like this, because the prices are so different.",
	"A mean hides a lot here, so I also looked at single rows.",
	"If {month} is special, a whole year of data would be better than three months.",
	"The ids are texts and not numbers, which is good because nobody can add them up by mistake.",
	"I checked {customer} by hand in the file and it is the same.",
	"My first version had an error in the name of a column; the message was clear, and I could mend it at once.",
	"I keep this cell although it is not part of the answer, so that I can see later what I tried.",
	"For the owner of the shop this number alone is not useful, it needs something to be compared with.",
	"I wonder whether {product} is bought together with other products, but the data does not say which orders belong together.",
	"Prices may have changed over time; the table has only one price for each product.",
	"The dates are days without a time, so I cannot say whether people order in the morning or in the evening.",
	"With a filter the number of rows gets smaller and never larger, which is a simple check after each step.",
	"We talked about this in the tutorial: always count the rows before and after a join.",
	"I would like to know what the shop pays for {product}, because only then we know what it earns.",
	"It would be easy to draw a conclusion from {n} rows, and it would be wrong to.",
	"Somebody who signed up early had more time to order, so new and old customers are not the same.",
	"I decided not to round here, since rounding too early makes the later sums a little wrong.",
	"The result is what I thought, so I go on.",
	"I was surprised and ran it again from the top, with the same result.",
}

// comments stand above code.
var comments = []string{
	"# just to look at it", "# I want to know this before I go on", "# compare with the number above", "# the same can be done with base functions, but this is easier to read",
	"# check", "# not part of the answer", "# first try was wrong because I filtered the wrong table", "# takes no time with so few rows", "# see lecture 5, slide on filters",
}

// exploration is a remark and the code that it is about.
func (a *author) exploration() []ipynb.Cell {
	l, v := pick(a, looks), a.values()
	remark := []string{l.why}
	for range 1 + a.IntN(4) {
		remark = append(remark, pick(a, thoughts))
	}
	code := l.r
	if a.kernel == ipynb.Python {
		code = l.py
	}
	cell := ipynb.Cell{Run: true, Source: pick(a, comments) + "\n" + v.fill(code)}
	switch result := l.result(a.shop, v).(type) {
	case *table.Table:
		cell.Outputs = []ipynb.Output{a.kernel.Show(result, "tibble")}
	default:
		cell.Outputs = []ipynb.Output{a.kernel.Value(result)}
	}
	return []ipynb.Cell{{Markdown: true, Source: v.fill(strings.Join(remark, " "))}, cell}
}

// chart is a cell that draws a picture.
func (a *author) chart(picture []byte) ipynb.Cell {
	code := "ggplot(orders, aes(order_date, quantity)) +\n  geom_jitter(alpha = 0.{n}) +\n  labs(title = \"Pieces per order\", x = \"Date\", y = \"Pieces\")"
	if a.kernel == ipynb.Python {
		code = "orders.plot.scatter(\"order_date\", \"quantity\", alpha=0.{n}, title=\"Pieces per order\")\nplt.show()"
	}
	return ipynb.Cell{Run: true, Source: a.values().fill(code), Outputs: []ipynb.Output{a.kernel.Picture(picture)}}
}

// scatter draws a picture of about size bytes, of points that no compression makes smaller.
func (a *author) scatter(size int) ([]byte, error) {
	const width = 300
	canvas := image.NewGray(image.Rect(0, 0, width, max(1, size/width)))
	for i := range canvas.Pix {
		canvas.Pix[i] = uint8(a.Uint32())
	}
	var b bytes.Buffer
	if err := png.Encode(&b, canvas); err != nil {
		return nil, fmt.Errorf("draw points: %w", err)
	}
	return b.Bytes(), nil
}
