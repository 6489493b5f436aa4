package submitter

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"tandem/internal/app"
	"tandem/internal/atomicfile"
	"tandem/internal/grader"
	"tandem/internal/grader/overrides"
	"tandem/internal/grader/report"
	"tandem/internal/grader/score"
	"tandem/internal/sanitize"
	"tandem/jobs"
)

// reviewCmd is the instructor's word on a class that was graded.
type reviewCmd struct {
	Dir     string   `arg:"" placeholder:"DIR" help:"Folder that submitter grade --out wrote."`
	Command []string `arg:"" optional:"" placeholder:"COMMAND" help:"One command, as list or points s-3f2a9c 17 REASON (default: commands are read line by line)."`
}

// Help lists the commands.
func (reviewCmd) Help() string {
	var b strings.Builder
	b.WriteString("Shows what is to be decided, and takes the instructor's decisions. Each is a line of DIR/instructor/overrides.jsonl, with who, when and why; pages and tables follow it at once. Commands:\n\n")
	b.WriteString(verbList())
	b.WriteString("\nWHAT is an element (e1), an item (i4) or an output (o2), as show numbers them, or something that hardly anybody has (r1), as list does.")
	return b.String()
}

// reviewing is a review with the person at it.
type reviewing struct {
	*session
	*grader.Review
}

// verb is one command of a review.
type verb struct {
	name, args, help string
	do               func(r *reviewing, args *words) error
}

var verbs []verb

func init() {
	verbs = []verb{
		{"list", "", "what is to be decided: what hardly anybody has, requests of students, submissions to look at", (*reviewing).list},
		{"show", "ID", "a submission: points, what was found, comments", (*reviewing).show},
		{"points", "ID [eN] POINTS REASON", "the points of a submission, or of an element of it", (*reviewing).points},
		{"credit", "ID iN|oN SHARE REASON", "how much of an item or output counts: full, half, none, or 0 to 1", (*reviewing).credit},
		{"comment", "ID TEXT", "add a comment to the feedback", (*reviewing).comment},
		{"edit", "ID COMMENT TEXT", "change a comment, as summary, improvements.2 or notes.7", (*reviewing).edit},
		{"delete", "ID COMMENT", "take a comment out", (*reviewing).delete},
		{"final", "ID", "the grade is final", (*reviewing).final},
		{"count", "rN|ID WHAT REASON", "something counts, though hardly anybody has it", (*reviewing).count},
		{"ignore", "rN|ID WHAT REASON", "something counts for nobody", (*reviewing).ignore},
		{"undo", "N", "take line N of the history back", (*reviewing).undo},
		{"history", "[ID]", "all decisions, or those about a submission", (*reviewing).history},
		{"help", "", "these commands", func(r *reviewing, _ *words) error { return r.write(verbList()) }},
	}
}

func verbList() string {
	var b strings.Builder
	for _, v := range verbs {
		fmt.Fprintf(&b, "  %-30s  %s\n", strings.TrimSpace(v.name+" "+v.args), v.help)
	}
	return b.String()
}

// Run does one command, or those that come line by line until there are no more.
func (c *reviewCmd) Run(s *session) error {
	return s.review(c.Dir, func(review *grader.Review) error {
		r := &reviewing{s, review}
		if len(c.Command) > 0 {
			return r.command(strings.Join(c.Command, " "))
		}
		return r.converse()
	})
}

// review holds a folder of reports while something is done to it.
func (s *session) review(dir string, do func(*grader.Review) error) (err error) {
	who, err := s.userName()
	if err != nil {
		return err
	}
	review, err := grader.OpenReview(dir, who)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, review.Close()) }()
	return do(review)
}

// converse takes commands. A person at a terminal is told of a mistake and may try again; a script ends with it.
func (r *reviewing) converse() error {
	person := isTerminal(r.in) && isTerminal(r.out)
	if person {
		if err := r.command("list"); err != nil {
			return err
		}
	}
	lines := bufio.NewScanner(r.in)
	lines.Buffer(nil, 1<<20)
	for {
		if person {
			fmt.Fprint(r.out, "review> ")
		}
		if !lines.Scan() {
			return lines.Err()
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		if line == "quit" || line == "exit" {
			return nil
		}
		err := r.command(line)
		if person && jobs.CodeOf(err) == jobs.CodeInvalid {
			fmt.Fprintln(r.err, sanitize.Text(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
	}
}

func (r *reviewing) command(line string) error {
	args := &words{rest: line}
	name := args.next()
	for _, v := range verbs {
		if v.name == name {
			args.usage = strings.TrimSpace(v.name + " " + v.args)
			return v.do(r, args)
		}
	}
	return jobs.Errorf(jobs.CodeInvalid, "there is no command %q; want one of %s", name, verbNames())
}

func verbNames() string {
	var names []string
	for _, v := range verbs {
		names = append(names, v.name)
	}
	return strings.Join(names, ", ")
}

// words are what is left of a command's line.
type words struct {
	rest  string
	usage string
}

// next takes the next word, "" if there is none.
func (w *words) next() string {
	w.rest = strings.TrimSpace(w.rest)
	end := strings.IndexAny(w.rest, " \t")
	if end < 0 {
		end = len(w.rest)
	}
	word := w.rest[:end]
	w.rest = strings.TrimSpace(w.rest[end:])
	return word
}

// want takes the next word, which must be there.
func (w *words) want(what string) (string, error) {
	if word := w.next(); word != "" {
		return word, nil
	}
	return "", jobs.Errorf(jobs.CodeInvalid, "%s is missing; want %s", what, w.usage)
}

func (r *reviewing) write(text string) error {
	_, err := io.WriteString(r.out, sanitize.Text(text))
	return err
}

// student takes the next word, which names a submission.
func (r *reviewing) student(args *words) (*report.Student, error) {
	id, err := args.want("the submission's ID")
	if err != nil {
		return nil, err
	}
	return r.Student(id)
}

func (r *reviewing) list(*words) error {
	d, err := r.ToDecide()
	if err != nil {
		return err
	}
	class := r.Class()
	if r.JSON {
		return r.print(d)
	}
	var b strings.Builder
	if len(d.Rare) > 0 {
		fmt.Fprintln(&b, "hardly anybody has these, so they count for nobody until you decide:")
	}
	for i, rare := range d.Rare {
		fmt.Fprintf(&b, "  r%d  %s: %d of %d have it%s\n", i+1, rare.Thing, rare.Have, rare.Of, map[report.Verdict]string{report.Count: "; you said that it counts", report.Ignore: "; you said that it counts for nobody"}[rare.Verdict])
		for _, other := range rare.Instead {
			fmt.Fprintf(&b, "        in its place: %s\n", other)
		}
	}
	if len(d.Requests) > 0 {
		fmt.Fprintln(&b, "students who ask for a second look:")
	}
	for _, q := range d.Requests {
		fmt.Fprintf(&b, "  %s  %s: %s (%s)\n", cmp.Or(q.Student, "?"), cmp.Or(q.Part, "no part is named"), cmp.Or(q.Because, "no reason is given"), q.File)
	}
	if len(d.Students) > 0 {
		fmt.Fprintln(&b, "to look at:")
	}
	for _, row := range d.Students {
		fmt.Fprintf(&b, "  %s  %s  %s\n", row.ID, rowPoints(row), strings.Join(row.Why, "; "))
	}
	fmt.Fprintf(&b, "%d submissions: %d graded, %d final, %d to look at, %d failed\n", class.Submissions, class.Graded, class.Final, class.Review, class.Failed)
	return r.write(b.String())
}

func rowPoints(row report.Row) string {
	switch {
	case row.Certain:
		return fmt.Sprintf("%g points", row.Points)
	case row.Scored():
		return fmt.Sprintf("%g–%g points", row.Low, row.High)
	}
	return "no points"
}

func (r *reviewing) show(args *words) error {
	s, err := r.student(args)
	if err != nil {
		return err
	}
	if r.JSON {
		return r.print(s)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", s.ID, strings.ReplaceAll(string(s.Status), "_", " "))
	for _, why := range append(slices.Clip(s.Reasons), s.Problem) {
		if why != "" {
			fmt.Fprintf(&b, "  %s\n", why)
		}
	}
	if s.Score != nil {
		fmt.Fprintf(&b, "  %s of %g points\n", span(s.Score.Low, s.Score.High), s.Score.Max)
		for i, e := range s.Score.Elements {
			fmt.Fprintf(&b, "  e%d  %s: %s of %g\n", i+1, e.ID, span(e.Low, e.High), e.Max)
			for _, why := range e.Reasons {
				fmt.Fprintf(&b, "        %s\n", why)
			}
		}
	}
	if s.Layer1 != nil {
		for i, item := range s.Layer1.Items {
			fmt.Fprintf(&b, "  i%d  %s: %s%s\n", i+1, score.ThingOf(item), strings.ReplaceAll(string(item.Status), "_", " "), note(item.Note))
		}
	}
	if s.Layer2 != nil {
		for i, o := range s.Layer2.Comparisons {
			fmt.Fprintf(&b, "  o%d  %s: %s%s\n", i+1, score.Thing{Kind: score.Output, Section: o.Section, Name: o.Key}, o.Verdict, note(o.Note))
			for _, d := range o.Differences {
				fmt.Fprintf(&b, "        %s: want %s, got %s\n", d.Where, d.Want, d.Got)
			}
		}
	}
	for _, said := range s.Remarks() {
		fmt.Fprintf(&b, "  %s  %s\n", said.ID, said.Text)
	}
	if s.Overrides != nil {
		for _, d := range s.Overrides.Decisions {
			fmt.Fprintf(&b, "  line %d  %s%s (%s)\n", d.Line, d.What, note(d.Why), d.By)
			if d.Now != "" {
				fmt.Fprintf(&b, "        look again: it rested on %s, and now there is %s\n", d.Was, d.Now)
			}
		}
	}
	return r.write(b.String())
}

func note(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

func span(low, high float64) string {
	if low == high {
		return fmt.Sprintf("%g", low)
	}
	return fmt.Sprintf("%g–%g", low, high)
}

// decide takes a decision and says so.
func (r *reviewing) decide(n overrides.Line) error {
	n, err := r.Decide(n)
	if err != nil {
		return err
	}
	if r.JSON {
		return r.print(n)
	}
	text := fmt.Sprintf("line %d: %s", n.N, n.What())
	if n.Student != "" {
		s, err := r.Student(n.Student)
		if err != nil {
			return err
		}
		text += fmt.Sprintf("; %s: %s", s.ID, strings.ReplaceAll(string(s.Status), "_", " "))
		if s.Score != nil {
			text += fmt.Sprintf(", %s of %g points", span(s.Score.Low, s.Score.High), s.Score.Max)
		}
	}
	return r.write(text + "\n")
}

func (r *reviewing) points(args *words) error {
	s, err := r.student(args)
	if err != nil {
		return err
	}
	n := overrides.Line{Do: overrides.Points, Student: s.ID}
	figure, err := args.want("a number of points")
	if err != nil {
		return err
	}
	if number, ok := strings.CutPrefix(figure, "e"); ok {
		i, err := strconv.Atoi(number)
		if err != nil || s.Score == nil || i < 1 || i > len(s.Score.Elements) {
			return jobs.Errorf(jobs.CodeInvalid, "there is no element %q; want one as `show %s` numbers them, as e1", figure, s.ID)
		}
		n.Element = s.Score.Elements[i-1].ID
		if figure, err = args.want("a number of points"); err != nil {
			return err
		}
	}
	points, err := strconv.ParseFloat(figure, 64)
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "points are %q; want a number, as 6.5, in %s", figure, args.usage)
	}
	n.Points, n.Why = &points, args.rest
	return r.decide(n)
}

// shares are words for credits.
var shares = map[string]float64{"full": 1, "half": 0.5, "none": 0}

func (r *reviewing) credit(args *words) error {
	s, err := r.student(args)
	if err != nil {
		return err
	}
	t, err := r.thing(s, args)
	if err != nil {
		return err
	}
	word, err := args.want("a share")
	if err != nil {
		return err
	}
	share, known := shares[word]
	if !known {
		if share, err = strconv.ParseFloat(word, 64); err != nil {
			return jobs.Errorf(jobs.CodeInvalid, "credit is %q; want full, half, none, or a number from 0 to 1", word)
		}
	}
	return r.decide(overrides.Line{Do: overrides.Credit, Student: s.ID, Thing: t, Credit: &share, Why: args.rest})
}

// thing takes the next word, which names an item or an output of a submission.
func (r *reviewing) thing(s *report.Student, args *words) (*score.Thing, error) {
	word, err := args.want("an item or an output")
	if err != nil {
		return nil, err
	}
	i, err := strconv.Atoi(word[1:])
	switch {
	case err != nil:
	case word[0] == 'i' && s.Layer1 != nil && i >= 1 && i <= len(s.Layer1.Items):
		t := score.ThingOf(s.Layer1.Items[i-1])
		return &t, nil
	case word[0] == 'o' && s.Layer2 != nil && i >= 1 && i <= len(s.Layer2.Comparisons):
		o := s.Layer2.Comparisons[i-1]
		return &score.Thing{Kind: score.Output, Section: o.Section, Name: o.Key}, nil
	}
	return nil, jobs.Errorf(jobs.CodeInvalid, "there is no item or output %q; want one as `show %s` numbers them, as i1 or o1", word, s.ID)
}

func (r *reviewing) comment(args *words) error {
	s, err := r.student(args)
	if err != nil {
		return err
	}
	if args.rest == "" {
		return jobs.Errorf(jobs.CodeInvalid, "the text is missing; want %s", args.usage)
	}
	return r.decide(overrides.Line{Do: overrides.Comment, Student: s.ID, Text: args.rest})
}

// existing takes the next words, which name a comment of a submission.
func (r *reviewing) existing(args *words) (*overrides.Line, error) {
	s, err := r.student(args)
	if err != nil {
		return nil, err
	}
	id, err := args.want("the comment")
	if err != nil {
		return nil, err
	}
	return &overrides.Line{Do: overrides.Comment, Student: s.ID, Comment: id}, nil
}

func (r *reviewing) edit(args *words) error {
	n, err := r.existing(args)
	if err != nil {
		return err
	}
	if n.Text = args.rest; n.Text == "" {
		return jobs.Errorf(jobs.CodeInvalid, "the text is missing; want %s; delete takes a comment out", args.usage)
	}
	return r.decide(*n)
}

func (r *reviewing) delete(args *words) error {
	n, err := r.existing(args)
	if err != nil {
		return err
	}
	return r.decide(*n)
}

func (r *reviewing) final(args *words) error {
	s, err := r.student(args)
	if err != nil {
		return err
	}
	return r.decide(overrides.Line{Do: overrides.Final, Student: s.ID, Why: args.rest})
}

func (r *reviewing) count(args *words) error  { return r.forAll(args, report.Count) }
func (r *reviewing) ignore(args *words) error { return r.forAll(args, report.Ignore) }

// forAll decides about something for the whole class.
func (r *reviewing) forAll(args *words, v report.Verdict) error {
	first := args.rest
	word, err := args.want("what it is about")
	if err != nil {
		return err
	}
	var t *score.Thing
	if i, err := strconv.Atoi(strings.TrimPrefix(word, "r")); err == nil && word[0] == 'r' {
		rare := r.Class().Rare
		if i < 1 || i > len(rare) {
			return jobs.Errorf(jobs.CodeInvalid, "there is no %q; want one as list numbers them, as r1", word)
		}
		t = &rare[i-1].Thing
	} else {
		args.rest = first
		s, err := r.student(args)
		if err != nil {
			return err
		}
		if t, err = r.thing(s, args); err != nil {
			return err
		}
	}
	return r.decide(overrides.Line{Do: overrides.Class, Thing: t, Verdict: v, Why: args.rest})
}

func (r *reviewing) undo(args *words) error {
	word, err := args.want("the line's number")
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(word)
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "line is %q; want a number, as in history", word)
	}
	return r.decide(overrides.Line{Do: overrides.Undo, Of: number, Why: args.rest})
}

func (r *reviewing) history(args *words) error {
	id := args.next()
	if id != "" {
		if _, err := r.Student(id); err != nil {
			return err
		}
	}
	lines, taken := r.History(id)
	if r.JSON {
		return r.print(lines)
	}
	var b strings.Builder
	for _, n := range lines {
		fmt.Fprintf(&b, "%d  %s  %s  %s%s%s", n.N, n.At.Format("2006-01-02 15:04"), n.By, strings.TrimPrefix(n.Student+" ", " "), n.What(), note(n.Why))
		if taken[n.N] {
			b.WriteString(" (taken back)")
		}
		b.WriteByte('\n')
	}
	return r.write(b.String())
}

// releaseCmd gives students their pages.
type releaseCmd struct {
	Dir          string `arg:"" placeholder:"DIR" help:"Folder that submitter grade --out wrote."`
	ShowSolution bool   `name:"show-solution" help:"Show what the solution has where an output differs."`
}

// Help says what is released.
func (releaseCmd) Help() string {
	return "Writes DIR/students: a page for each submission whose grade is certain or final, with the notebook beside the findings, and DIR/gradescope. Those that need review stay back; a page that was released and is open again is taken back. Exit code 3: some stay back."
}

// Run releases, and says what stays back.
func (c *releaseCmd) Run(s *session) error {
	return s.review(c.Dir, func(review *grader.Review) error {
		released, err := review.Release(c.ShowSolution)
		if err != nil {
			return err
		}
		return c.print(s, released)
	})
}

func (c *releaseCmd) print(s *session, released *grader.Released) (err error) {
	if s.JSON {
		err = s.print(released)
	} else {
		var b strings.Builder
		fmt.Fprintf(&b, "released: %d, in %s/students\n", released.Released, c.Dir)
		for _, held := range released.Held {
			taken := ""
			if released.Was(held.ID) {
				taken = "; its page was taken back"
			}
			fmt.Fprintf(&b, "  %s stays back: %s%s\n", held.ID, held.Why, taken)
		}
		_, err = io.WriteString(s.out, sanitize.Text(b.String()))
	}
	if err == nil && len(released.Held) > 0 {
		err = &app.ExitError{Code: app.ExitDegraded}
	}
	return err
}

// togetherCmd adds up an assignment of several notebooks.
type togetherCmd struct {
	Dirs []string `arg:"" name:"dirs" placeholder:"DIR" help:"Folders that submitter grade --out wrote, one for each notebook."`
	Out  string   `short:"o" placeholder:"FILE" help:"File to write, readable by you only (default: stdout). It has names."`
}

// Help says whose sum is empty.
func (togetherCmd) Help() string {
	return "Prints a CSV table with a line for each student: the points of each notebook, and their sum. Students are told apart by name and number. The sum is empty where the points of one notebook are not certain, and a notebook that was not handed in counts 0."
}

// Run adds up.
func (c *togetherCmd) Run(s *session) error {
	totals, err := grader.Together(c.Dirs)
	if err != nil {
		return err
	}
	if s.JSON {
		return s.print(totals)
	}
	if c.Out == "" {
		_, err := s.out.Write(totals.CSV())
		return err
	}
	return atomicfile.Write(c.Out, totals.CSV(), 0o600)
}
