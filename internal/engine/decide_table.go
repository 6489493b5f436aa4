package engine

// TableRow compares, for one length of prompt, computing it on the decode machine with handing its KV state over. Seconds are
// until the first token.
type TableRow struct {
	Tokens     int     `json:"tokens"`
	CacheType  string  `json:"cache_type"`
	StateBytes int64   `json:"state_bytes"`
	Whole      float64 `json:"whole_seconds"`
	Handover   float64 `json:"handover_seconds"`
	SpeedUp    float64 `json:"speed_up"`
	Pays       bool    `json:"pays"` // it saves the margin
}

// Table makes a row for each length of prompt and type of the KV cache. ask makes the question.
func Table(tokens []int, cacheTypes []string, ask func(tokens int, cacheType string) Question) []TableRow {
	var rows []TableRow
	for _, t := range cacheTypes {
		for _, n := range tokens {
			d := Decide(ask(n, t))
			rows = append(rows, TableRow{
				Tokens: n, CacheType: t, StateBytes: d.StateBytes, Whole: d.OnDecode.FirstToken, Handover: d.Handover.FirstToken,
				SpeedUp: d.OnDecode.FirstToken / d.Handover.FirstToken, Pays: d.Handover.Possible && d.Saves > d.Margin,
			})
		}
	}
	return rows
}
