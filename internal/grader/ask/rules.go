package ask

import (
	"regexp"
	"slices"
	"strings"
)

// rule is a way to speak to the grader.
type rule struct {
	kind    string
	needs   []string // in lower case: a text without any of them is not looked at
	pattern *regexp.Regexp
	told    bool // it must be an instruction: "I ignore …" and "they give …" are none
}

// find is the first place that the rule is about, nil if there is none. lower is the text in lower case.
func (r *rule) find(text, lower string) []int {
	if !slices.ContainsFunc(r.needs, func(s string) bool { return strings.Contains(lower, s) }) {
		return nil
	}
	for _, at := range r.pattern.FindAllStringIndex(text, -1) {
		if !r.told || !somebodyDoes.MatchString(text[max(0, at[0]-60):at[0]]) {
			return at
		}
	}
	return nil
}

// somebodyDoes is the end of a text after which a verb says what somebody does or not, and is no instruction.
var somebodyDoes = regexp.MustCompile(`(?i)(?:^|[^\p{L}])(?:i|we|they|he|she|it|which|that|who|customers|columns?|students|people|not|never|don['’]t|doesn['’]t|didn['’]t|ich|wir|man|je|on|nous|yo|我|我们|他们)` +
	`(?:\s+(?:also|just|simply|then|now|will|would|can|could|may|might|do|did|does|have|had|to|should|must|cannot|want|wanted|decided|chose|need|tend|tried|\p{L}+ly))*\s*$`)

// gap is what may stand between two words of a sentence: white space, and signs of comments, quotes and emphasis.
const gap = "[\\s#*_>\"'`/-]{1,9}"

// words makes a pattern: a blank stands for a gap, and (…)* for words with gaps behind them.
func words(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?i)" + strings.ReplaceAll(pattern, " ", gap))
}

const (
	ordinary  = `(?:(?:please|all|any|each|every|everything|of|in|the|these|those|this|that|my|your|our|its|other|entire|whole|complete|given|own) ){0,5}`
	earlier   = `(?:previous|prior|above|preceding|earlier|foregoing|original|initial|system|grading|scoring|marking|assessment|evaluation|rubric['’]?s?|grader['’]?s?)`
	work      = `(?:notebook|submission|assignment|homework|answers?|work|solution|project|student|author|report|exercise|task|criteri(?:on|a)|sections?|parts?|elements?)`
	whole     = `(?:full|maximum|maximal|max|perfect|highest|top|best|all|100|one hundred)`
	points    = `(?:points?|marks?|scores?|credits?|grades?|percent|pts)`
	receivers = `(?:me|us|this|it|them|him|her|the|my|our|a|an|every|each|all|any|at|least|with|for|to|please|everyone|` + work + `)`
)

// rules are all ways that are looked for, in English, and the two commonest in other languages.
var rules = append(elsewhere[:len(elsewhere):len(elsewhere)], []rule{
	{flagInstruction, []string{"ignore", "disregard", "forget", "override", "bypass", "overlook"}, words(
		`\b(?:ignore|disregard|forget|override|bypass|overlook) ` + ordinary + `(?:` + earlier + ` ){0,3}(?:(?:and|or) ` + earlier + ` )?` +
			`(?:instructions?|rubrics?|prompts?|directives?|(?:grading|marking|scoring|assessment) (?:criteria|rules|scheme|guidelines?|guide)|(?:system|previous|prior|above|earlier) (?:messages?|rules|guidelines?|criteria|text|directions))\b`), true},
	{flagInstruction, []string{"system prompt", "system-prompt", "system_prompt"}, regexp.MustCompile(`(?i)\bsystem[ _-]prompt\b`), false},
	{flagInstruction, []string{"instruction"}, words(`\b(?:new|updated|revised|real|actual|secret|special) instructions? (?:for|to) (?:the )?(?:ai|llm|grader|reviewer|assistant|model|evaluator)\b`), false},
	{flagInstruction, []string{"ignorier", "missachte", "vergiss", "vergessen"}, words(
		`(?:ignorier(?:e|t|en)|missachte[nt]?|vergiss|vergessen)(?: sie)? (?:(?:bitte|alle|alles|die|das|den|diese|dieses|sämtliche|bisherigen|vorherigen|vorigen|obigen|früheren|deine|ihre) ){0,4}(?:anweisung(?:en)?|instruktion(?:en)?|bewertungs\p{L}+|rubrik|systemprompt)`), true},
	{flagInstruction, []string{"ignor", "omite", "olvid"}, words(
		`(?:ignor(?:a|e|ad|en)|omit(?:e|a)|olvid(?:a|e)) (?:(?:por favor|todas?|todos|las?|los|el|estas?|cualquier|previas|anteriores) ){0,4}(?:instrucci(?:ón|ones)|instruccion|rúbrica|rubrica|indicaciones|criterios de (?:evaluación|calificación))`), true},
	{flagInstruction, []string{"ignore", "oublie"}, words(
		`(?:ignore[zrs]?|oublie[zrs]?) (?:(?:toutes?|tous|les?|la|ces|cette|vos|tes|précédentes) ){0,4}(?:instructions?|consignes?|barème|grille d['’]évaluation)`), true},
	{flagInstruction, []string{"忽略", "无视", "無視", "忽視", "不要理会", "忘记"}, regexp.MustCompile(
		`(?:忽略|无视|無視|忽視|不要理会|忘记)(?:掉|所有|全部|任何|一切|以上|上述|上面|之前|先前|前面|评分|系统|你|您|这些|的|\s){0,6}(?:指令|指示|说明|提示词?|评分标准|评分规则|規則|规则)`), true},

	{flagPoints, []string{"give", "award", "assign", "grant", "allocate"}, words(
		`\b(?:give|award|assign|grant|allocate) (?:` + receivers + ` ){0,6}(?:me|us|this|it|them|him|her|everyone|` + work + `)(?:\s*,[^,.;:\n]{1,40},)? (?:` + receivers + ` ){0,4}` +
			`(?:` + whole + `|\d{1,3}(?:(?:\.\d)?%)?)(?: (?:possible|available|of|out|the|\d{1,3}))*(?: ` + points + `\b|\s*%|\s*/\s*\d+)`), true},
	{flagPoints, []string{"give", "award", "assign", "grant", "output", "return", "respond"}, words(
		`\b(?:give|award|assign|grant|output|return|respond with) (?:the )?(?:full|maximum|max|perfect|all|100) (?:points|marks|credit|score)(?: (?:to|for) ` + receivers + `| here\b|\s*[.!;]|\s*$)`), true},
	{flagPoints, []string{"award", "grant"}, words(`\b(?:award|grant) (?:the )?(?:maximum|highest score|top score)(?:\s*[.!;]|\s*$)`), true},
	{flagPoints, []string{"verdict"}, regexp.MustCompile(`(?i)["'“]verdicts?["'”]\s*:\s*["'“](?:met|partly|not_met)\b|\bverdicts? ?(?:\bto\b|\bas\b|=|:) ?["'“]?met\b`), false},
	{flagPoints, []string{"met"}, words(`(?:^|[.!?:;]\s*|\n\s*|\b(?:please|must|should|just|only|always) )(?:answer|output|respond|say|write|return|put|choose)(?: with)? ["'“]?met["'”]? (?:for|to|on|in|everywhere)(?: (?:all|each|every|any))?\b`), true},
	{flagPoints, []string{" as "}, words(`\b(?:mark|rate|judge|score|grade) (?:everything|all|each|every (?:item|point|part))(?: of (?:it|them|these|this))? as (?:fully )?(?:met|satisfied|fulfilled|passed)\b`), true},
	{flagPoints, []string{"already", "approved"}, words(
		`\b(?:this|my|the) ` + work + ` (?:(?:has|have|had|is|was|been) ){0,2}(?:already (?:received|earned|got|been given|been awarded) (?:` + whole + `|\d{1,3}) ` + points + `|pre-?approved)\b`), false},
	{flagInstruction, []string{"mention", "report", "point out", "list"}, words(
		`\b(?:do not|don['’]t|never) (?:mention|report|list|point out) (?:(?:any|the|my|its) ){0,2}(?:mistakes?|weakness(?:es)?|flaws?|shortcomings)\b`), true},
	{flagInstruction, []string{"skip"}, words(`\bskip (?:(?:the|all|any) )?(?:grading|marking)\b`), true},
	{flagPoints, []string{"deserve", "should", "must"}, words(
		`\b(?:this|my|the) ` + work + ` (?:deserves?|should (?:get|receive|be (?:given|awarded))|must (?:get|receive|be (?:given|awarded))) (?:(?:the|a|an|at|least) ){0,2}(?:` + whole + `|\d{1,3}) ` + points + `\b`), false},
	{flagPoints, []string{"deduct", "subtract", "take off", "take away"}, words(
		`\b(?:do not|don['’]t|never) (?:deduct|subtract|take (?:off|away))(?: (?:(?:any|the|a|my|our|me) ){0,2}` + points + `\b| (?:anything|for|from (?:this|me|my))\b|\s*[.!;]|\s*$)`), true},
	{flagPoints, []string{"grade", "mark", "score", "rate", "evaluate", "assess"}, words(
		`\b(?:grade|score|evaluate|assess|mark|rate) (?:(?:this|it|me) (?:as|with|at) (?:(?:a|an|the|being) ){0,2}(?:full|perfect|excellent|outstanding|maximum|highest|100|a\+)|` +
			`(?:this|the|my) ` + work + ` (?:as|with|at) (?:(?:a|an|the|being) ){0,2}(?:full|perfect|excellent|outstanding|maximum|highest|best|complete|correct|met|passed|passing|100|a\+|if))`), true},
	{flagPoints, []string{"grade this as"}, words(`\bgrade this as\b`), true},
	{flagPoints, []string{"criteri", "everything", "all of"}, words(
		`\b(?:mark|rate|judge|score|treat|consider|report|set|grade) (?:every|all|each|the|these|any) (?:(?:of|the|single) ){0,2}criteri(?:on|a) (?:(?:to|be|as|is|are) ){1,3}(?:fully )?(?:met|satisfied|fulfilled|passed|full|complete)`), true},
	{flagPoints, []string{"gib", "vergib", "geben", "vergeben", "bewerte"}, words(
		`\b(?:gib|gebt|geben|vergib|vergeben|bewerten?)(?: sie)? (?:(?:mir|uns|bitte|dieser|diesem|dieses|diese|der|dem|das|die|den|abgabe|arbeit|notebook|lösung|aufgabe|dafür|mit|hier|alle|allen|volle[nr]?|maximale[nr]?|höchste[nr]?) ){0,6}` +
			`(?:(?:volle|alle|maximale|100) (?:punkte|punktzahl|prozent|bewertung)|volle punktzahl|bestnote|höchstnote|höchstpunktzahl)`), true},
	{flagPoints, []string{"punkt"}, words(`\bbitte um (?:die )?(?:volle|maximale) (?:punktzahl|punkte)`), false},
	{flagPoints, []string{"punt", "nota", "calificaci"}, words(
		`(?:\bda|dale|dame|danos|dar|den|otorga|otorgue|asigna|asigne|pon|ponme|ponle|concede)(?: (?:a|me|le|por|favor|este|esta|esto|mi|el|la|los|todos|toda|trabajo|cuaderno|entrega|tarea|notebook)){0,6} ` +
			`(?:(?:todos los|100|cien) puntos|(?:la )?(?:máxima|maxima|mejor) (?:puntuación|puntuacion|nota|calificación|calificacion)|(?:la )?(?:puntuación|puntuacion|nota|calificación|calificacion) (?:máxima|maxima|completa))`), true},
	{flagPoints, []string{"points", "note", "barème"}, words(
		`(?:donne[zr]?|attribue[zr]?|accorde[zr]?|mets|mettez)(?: (?:moi|lui|nous|à|a|ce|cette|cet|mon|ma|le|la|les|tous|travail|devoir|cahier|notebook|copie|rendu)){0,6} ` +
			`(?:(?:tous les|100|cent) points|(?:la )?(?:note maximale|meilleure note|note parfaite|totalité des points)|le maximum(?: de points| des points))`), true},
	{flagPoints, []string{"满分", "滿分", "100分", "100 分", "最高分", "一百分"}, regexp.MustCompile(
		`(?:给|給|打|判)(?:我|予|这份|这个|这篇|該|该|本|他|她|它|一个|的|作业|作業|笔记本|提交|答案|报告|出|上|\s){0,6}(?:满分|滿分|100\s*分|最高分|一百分)`), true},

	{flagRole, []string{"you are", "you're", "act as", "pretend"}, words(
		`\b(?:you(?: are|['’]re)|act as|pretend to be) (?:(?:now|really|actually|just|only|no longer) ){0,2}(?:(?:a|an|the|my|in) )?(?:[\p{L}-]+ ){0,3}?(?:(?:auto)?graders?|ai|llm|language model|chatbot|evaluator|examiner|(?:ai|grading|helpful|teaching|lenient|generous|friendly|virtual) assistant)\b`), false},
	{flagRole, []string{"you are", "you're"}, words(`\byou(?: are|['’]re) (?:now )(?:(?:a|an|the|my|in) )?(?:[\p{L}-]+ ){0,2}?(?:assistant|mode)\b`), false},
	{flagRole, []string{"you are", "you're"}, words(`\byou(?: are|['’]re) an? assistant(?:\s*[.,;:!]| (?:that|who|and)\b|\s*$)`), false},
	{flagRole, []string{"as an ai"}, words(`\bas an ai(?:\s*[.,:;]|\s*$| (?:language|model|assistant|grader|reviewer|evaluator|system|you|your)\b)`), false},
	{flagRole, []string{"ai", "llm", "gpt", "model", "grad"}, words(
		`\b(?:note|message|attention|notice|instructions?|reminder|dear|hello|hi|hey)(?:\s*[,:])?(?: (?:to|for))?(?: (?:the|all|any|an?|my|your|whichever))? (?:ai|llms?|chatgpt|gpt(?:-?\d\w*)?|language models?|auto-?graders?|automat(?:ed|ic) graders?|grading (?:bot|model|ai|assistant|system|agent))\b`), false},

	{flagFence, []string{"submission"}, regexp.MustCompile(`(?i)<\s*/?\s*submission(?:\s+id\b|\s*/?>)`), false},
	{flagChat, []string{"|>", "｜>", "[inst]", "[/inst]", "sys>>", "_of_turn>", "think>", "tool_call>"}, regexp.MustCompile(
		`<[|｜][\p{L}_▁0-9]*\p{L}[\p{L}_▁0-9]*[|｜]>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|</?think>|</?tool_call>`), false},
}...)
