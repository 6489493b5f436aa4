package class

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tandem/examples/class/ipynb"
)

// Crowd describes a class of any size. Sizes are in bytes, and log-normal: the largest is what is met once in a class of sixty, and never passed.
// A notebook is never smaller than its author's answers.
type Crowd struct {
	Students      int
	Seed          uint64
	Median        int // of the files
	Largest       int
	Source        int // median of the text in the cells
	LargestSource int
}

// Member is one student's notebook.
type Member struct {
	Name   string // of the file
	Kernel ipynb.Kernel
	Data   []byte
	Source int // bytes of text in the cells
}

// bases are the notebooks that a crowd's are made of, each as often as it is met.
var bases = map[ipynb.Kernel][]string{
	ipynb.R:      {"student-01", "student-01", "student-05", "student-05", "student-05", "student-02", "student-08"},
	ipynb.Python: {"student-06", "student-06", "student-07"},
}

// Members makes the notebooks one after the other. The same crowd has the same notebooks.
func (c Crowd) Members() iter.Seq2[*Member, error] {
	return func(yield func(*Member, error) bool) {
		shop, err := openShop()
		if err != nil {
			yield(nil, err)
			return
		}
		template, err := read("template", ipynb.R)
		if err != nil {
			yield(nil, err)
			return
		}
		ranks := rand.New(rand.NewPCG(c.Seed, 0)).Perm(c.Students)
		for i, rank := range ranks {
			a := &author{Rand: rand.New(rand.NewPCG(c.Seed, uint64(i)+1)), shop: shop, kernel: ipynb.R}
			if i%5 == 4 {
				a.kernel = ipynb.Python
			}
			share := (float64(rank) + 0.5) / float64(c.Students)
			m, err := a.write(fmt.Sprintf("student-%03d", i+1), template.Cells, quantile(share, c.Source, c.LargestSource), quantile(share, c.Median, c.Largest))
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// quantile returns the size that a share of all do not pass.
func quantile(share float64, median, largest int) int {
	const largestOfSixty = 2.4 // standard deviations
	sigma := math.Log(float64(largest)/float64(median)) / largestOfSixty
	return min(largest, int(float64(median)*math.Exp(sigma*math.Sqrt2*math.Erfinv(2*share-1))))
}

// author is a student who writes a notebook.
type author struct {
	*rand.Rand

	shop   *shop
	kernel ipynb.Kernel
}

// write makes a notebook of about source bytes of text and size bytes as a file.
func (a *author) write(name string, template []ipynb.Cell, source, size int) (*Member, error) {
	base := pick(a, bases[a.kernel])
	nb, err := read(base, a.kernel)
	if err != nil {
		return nil, err
	}
	nb.Name = name
	for i := range nb.Cells {
		nb.Cells[i].Source = strings.Replace(nb.Cells[i].Source, " "+injection, "", 1)
	}
	a.spoil(nb, template)
	a.explore(nb, source-size/largestPicture*chartText)
	if err := a.draw(nb, size); err != nil {
		return nil, err
	}
	data, err := nb.Encode()
	return &Member{Name: name + ".ipynb", Kernel: a.kernel, Data: data, Source: textOf(nb)}, err
}

// spoil makes what goes wrong in every other notebook of a class: a part that was never begun, a question that was left, a cell that was not run, a mistyped name.
func (a *author) spoil(nb *ipynb.Notebook, template []ipynb.Cell) {
	switch a.IntN(10) {
	case 0:
		part := fmt.Sprintf("## Part %d:", 3+a.IntN(3))
		begins := func(c ipynb.Cell) bool { return c.Markdown && strings.Contains(c.Source, part) }
		nb.Cells = slices.Concat(nb.Cells[:slices.IndexFunc(nb.Cells, begins)], template[slices.IndexFunc(template, begins):])
	case 1, 2:
		nb.Cells[len(nb.Cells)-1] = template[len(template)-1]
	case 3, 4:
		cell := &nb.Cells[a.within(nb)]
		cell.Run, cell.Outputs = false, nil
	case 5:
		cell := &nb.Cells[a.within(nb)]
		cell.Source += "\nsummary(order_detials)"
		failure := ipynb.Fail("ERROR", "Error: object 'order_detials' not found")
		if a.kernel == ipynb.Python {
			failure = ipynb.Fail("NameError", "name 'summary' is not defined")
		}
		cell.Outputs = []ipynb.Output{failure}
	}
}

// within returns the place of a code cell, that which reads the tables or one after it.
func (a *author) within(nb *ipynb.Notebook) int {
	var places []int
	for i, c := range nb.Cells {
		if !c.Markdown && (len(places) > 0 || strings.Contains(c.Source, "products.csv")) {
			places = append(places, i)
		}
	}
	return pick(a, places)
}

// explore adds cells in which a student looks around, until the text is as long as it is to be.
func (a *author) explore(nb *ipynb.Notebook, source int) {
	for text := textOf(nb); ; {
		cells := a.exploration()
		for _, c := range cells {
			text += len(c.Source)
		}
		if text > source {
			return
		}
		nb.Cells = slices.Insert(nb.Cells, a.within(nb)+1, cells...)
	}
}

// What charts are: bytes of a picture in the file, at most, and of the code that draws it, about.
const (
	largestPicture = 120_000
	chartText      = 160
)

// draw adds pictures before the last part until the file is as large as it is to be.
func (a *author) draw(nb *ipynb.Notebook, size int) error {
	data, err := nb.Encode()
	if err != nil {
		return err
	}
	last := slices.IndexFunc(nb.Cells, func(c ipynb.Cell) bool { return c.Markdown && strings.Contains(c.Source, "## Part 5:") })
	for missing := size - len(data); missing > 1_000; missing -= largestPicture {
		png, err := a.scatter(min(missing, largestPicture) * 3 / 4)
		if err != nil {
			return err
		}
		nb.Cells = slices.Insert(nb.Cells, last, a.chart(png))
	}
	return nil
}

// textOf counts the bytes of text in the cells.
func textOf(nb *ipynb.Notebook) int {
	n := 0
	for _, c := range nb.Cells {
		n += len(c.Source)
	}
	return n
}

func pick[T any](a *author, from []T) T { return from[a.IntN(len(from))] }

// WriteCrowd writes a class into a folder: the assignment, and the notebooks into its submissions. It tells of each notebook, without its data.
func WriteCrowd(dir string, c Crowd, tell func(m Member, size int)) error {
	assignment, err := Assignment()
	if err != nil {
		return err
	}
	if err := write(dir, assignment); err != nil {
		return err
	}
	for m, err := range c.Members() {
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, "submissions"), map[string][]byte{m.Name: m.Data}); err != nil {
			return err
		}
		size := len(m.Data)
		m.Data = nil
		tell(*m, size)
	}
	return nil
}

// write writes files into a folder, which is made if need be.
func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}
