package attacks

// verdict is what becomes of an attack.
type verdict struct {
	word string
	why  string // it is allowed, in a word
}

var (
	denied   = verdict{"denied", ""}    // the server refused all of it
	noEffect = verdict{"no effect", ""} // it went through, and did nothing to anybody

	own    = allowed("own")      // what the key is for: its own jobs, or its own model
	serves = allowed("serves")   // workers look up and end jobs for all users
	asks   = allowed("asks")     // it submits for all users
	shared = allowed("shared")   // subjects that do not say for which model something is
	reply  = allowed("reply")    // JetStream answers wherever a request says
	unkept = allowed("unstored") // a message that is stored nowhere, and that nobody takes for a result
	knows  = allowed("knows")    // whoever knows a random name: the id of another's job, or an inbox
	all    = allowed("all")      // the operator may do everything
	open   = allowed("open")     // without keys, everybody may
)

func allowed(why string) verdict { return verdict{"allowed", why} }

func (v verdict) String() string {
	if v.why != "" {
		return v.word + ": " + v.why
	}
	return v.word
}

// cells are the verdicts by identity.
type cells [columns]verdict

// want is what is expected of an attack that succeeds where nobody has keys, and by the operator.
func want(grader, prefill, decode, gateway verdict) cells {
	return cells{denied, grader, prefill, decode, gateway, all, open}
}

// with is want with another verdict of the operator's attack, and of that where nobody has keys.
func (c cells) with(operator, anybody verdict) cells {
	c[byOperator], c[byAnybody] = operator, anybody
	return c
}

// attack is one that every identity makes.
type attack struct {
	name  string // what it tries
	try   func(*attacker) (effect func() bool)
	want  cells
	ruins bool // where it succeeds, streams and consumers must be made again
}
