package ask

import "regexp"

// near is what may stand between two words of a language whose order is free.
const near = `[^.!?;\n。！？]{0,40}?`

// anyCase makes a pattern without case.
func anyCase(pattern string) *regexp.Regexp { return regexp.MustCompile("(?i)" + pattern) }

// elsewhere are the two commonest ways in languages that no other row has: to ignore what was told, and to give all points.
var elsewhere = []rule{
	// Russian
	{flagInstruction, []string{"игнорир", "забудь", "проигнорир"}, anyCase(`(?:про)?(?:игнорируй|забудь)(?:те)?` + near + `(?:инструкци|указани|критери|рубрик|правил)`), true},
	{flagPoints, []string{"балл", "оценк"}, anyCase(`(?:постав(?:ь|ьте)|дай(?:те)?|выстав(?:ь|и|ьте|ите)|присво[йи]т?е?)` + near + `(?:максимальн\p{L}+ (?:балл|оценк)|высш\p{L}+ (?:балл|оценк)|полн\p{L}+ балл|(?:100|сто) балл)`), true},
	// Arabic
	{flagInstruction, []string{"تجاهل", "انس"}, anyCase(`(?:تجاهل|انس)` + near + `(?:تعليمات|ارشادات|إرشادات|معايير|توجيهات)`), true},
	{flagPoints, []string{"الدرجة", "العلامة", "الدرجات", "درجة"}, anyCase(`(?:امنح|أعط|اعط|ضع)` + near + `(?:الدرجة (?:الكاملة|القصوى|النهائية)|العلامة (?:الكاملة|القصوى|التامة)|الدرجات كاملة|(?:100|١٠٠) درجة)`), true},
	// Hindi
	{flagInstruction, []string{"निर्देश"}, anyCase(`निर्देश` + near + `(?:अनदेखा|नज़रअंदाज|नजरअंदाज|अनदेखी|भूल जा)`), true},
	{flagPoints, []string{"अंक", "नंबर"}, anyCase(`(?:पूरे|पूर्ण|अधिकतम|100) (?:अंक|नंबर)\s*(?:दें|दो|दीजिए|दीजिये|प्रदान)`), true},
	// Japanese
	{flagInstruction, []string{"無視"}, anyCase(`(?:指示|命令|採点基準|評価基準|ルーブリック|プロンプト)[^。！？\n]{0,12}無視(?:して|せよ|しろ|すること)`), true},
	{flagPoints, []string{"満点", "100点", "100 点", "最高点"}, anyCase(`(?:満点|最高点|100\s?点)[^。！？\n]{0,8}(?:ください|付けて|つけて|与えて|あげて|にして|をくれ)`), true},
	// Korean
	{flagInstruction, []string{"무시"}, anyCase(`(?:지시|지침|명령|채점 ?기준|프롬프트)[^.!?\n]{0,10}무시(?:하세요|해 ?주세요|하고|해라|하십시오|하라)`), true},
	{flagPoints, []string{"만점", "100점", "최고점"}, anyCase(`(?:만점|최고점|100 ?점)[^.!?\n]{0,6}(?:주세요|줘|주십시오|부여)`), true},
	// Portuguese
	{flagInstruction, []string{"ignor", "esqueç", "desconsider"}, words(
		`(?:ignor(?:e|a|em)|esqueç(?:a|am)|desconsider(?:e|em)) (?:(?:por favor|todas?|todos|as?|os?|estas?|quaisquer|anteriores) ){0,4}(?:instruç(?:ão|ões)|rubrica|orientações|critérios de (?:avaliação|correção))`), true},
	{flagPoints, []string{"nota", "pont"}, words(
		`(?:dê|dá|dar|deem|atribua|atribuir|conceda|coloque)(?: (?:me|a|ao|à|este|esta|meu|minha|o|os|todos|trabalho|caderno|tarefa)){0,6} (?:(?:a )?(?:nota|pontuação) (?:máxima|total)|todos os pontos|(?:100|cem) pontos)`), true},
	// Italian
	{flagInstruction, []string{"ignora", "dimentica"}, words(`(?:ignora(?:te)?|dimentica(?:te)?) (?:(?:tutt[ei]|le|la|i|queste|precedenti) ){0,4}(?:istruzioni|rubrica|indicazioni|criteri di valutazione)`), true},
	{flagPoints, []string{"punt", "voto"}, words(
		`(?:dai|dammi|date|assegna(?:te)?|attribuisci|metti)(?: (?:a|al|mi|questo|questa|il|lo|la|compito|elaborato|quaderno)){0,6} (?:(?:il )?(?:punteggio|voto) massimo|(?:il )?massimo dei (?:punti|voti)|tutti i punti|(?:100|cento) punti)`), true},
	// Turkish
	{flagInstruction, []string{"talimat", "yönerge", "ölçüt", "kriter"}, anyCase(`(?:talimat|yönerge|değerlendirme (?:ölçüt|kriter))\p{L}*` + near + `(?:yok say|görmezden gel|dikkate alma|unut)`), true},
	{flagPoints, []string{"puan", "not"}, anyCase(`(?:tam|100|yüz|en yüksek|maksimum) (?:puan|not)\p{L}* ver(?:in|iniz)?(?:\P{L}|$)`), true},
	// Vietnamese
	{flagInstruction, []string{"bỏ qua", "phớt lờ", "lờ đi"}, anyCase(`(?:bỏ qua|phớt lờ|lờ đi)` + near + `(?:hướng dẫn|chỉ dẫn|chỉ thị|tiêu chí|thang điểm)`), true},
	{flagPoints, []string{"điểm"}, anyCase(`(?:cho|chấm)` + near + `(?:điểm (?:tối đa|tuyệt đối|cao nhất)|100 điểm)`), true},
	// Polish
	{flagInstruction, []string{"zignoruj", "ignoruj", "zapomnij"}, anyCase(`(?:z?ignoruj(?:cie)?|zapomnij(?:cie)?)` + near + `(?:instrukcj|poleceni|wytyczn|kryteri)`), false},
	{flagPoints, []string{"punkt", "ocen"}, anyCase(`(?:daj(?:cie)?|przyznaj(?:cie)?|wystaw(?:cie)?)` + near + `(?:maksymaln\p{L}+ (?:liczb\p{L}+ punkt|punkt|ocen)|najwyższ\p{L}+ ocen|pełn\p{L}+ punkt|(?:100|sto) punkt)`), false}, // "i" is and, not I
}
