package config

import "time"

// judgeBlock is who grades answers, and how far the grade is believed.
var judgeBlock = Block{
	Name: "judge", Label: LabelIdent, Doc: "who grades answers, by which rubric, and how far the grade is believed",
	Attrs: []Attr{
		{Name: "intent", Type: ref("intent"), Default: `"eval/grade"`, Reload: ReloadUse, Serves: "JDG-001", Doc: "asked for a grade"},
		{Name: "capability", Type: ref("capability"), Reload: ReloadUse, Serves: "JDG-001, JDG-002", Doc: "asked first; default: the first candidate of the intent"},
		{Name: "rubric", Type: ref("rubric"), Reload: ReloadUse, Serves: "JDG-001", Doc: "what is graded; default: the judge has its own"},
		{Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "GATE-008", Doc: "false: nobody is asked"},
		{Name: "score_path", Type: list(text).between(1, 16), Default: `["score"]`, Reload: ReloadUse, Serves: "JDG-003", Doc: "where the score is in the answer of the judge"},
		{Name: "max_attempts", Type: integer(1, 8), Default: `1`, Reload: ReloadUse, Serves: "JDG-008, BUD-003", Doc: "calls to one capability for one grade"},
		{Name: "votes", Type: integer(1, 9), Default: `3`, Reload: ReloadUse, Serves: "JDG-008", Doc: "grades that an answer gets that fails by the first one, until most of them agree; an odd number"},
		{Name: "on_error", Type: enum("finding", "ignore"), Default: `"finding"`, Reload: ReloadUse, Serves: "JDG-005", Doc: "whether a judge that fails counts as a check that fails, or as none; with ignore, grades of a judge that was not calibrated do not count either"},
		{Name: "allow_same_family", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "JDG-009", Doc: "a model may judge what a model of its family wrote"},
		{Name: "memo", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "JDG-007", Doc: "equal answers to equal tasks are graded once, as long as the process of the host lives"},
		{Name: "min_kappa", Type: number01(), Default: `0.4`, Reload: ReloadUse, Serves: "JDG-011", Doc: "agreement with labelled answers without which the judge refuses nothing by itself"},
		{Name: "anchors", Type: path, Reload: ReloadUse, Serves: "JDG-010", Doc: "file of the labelled answers; a host that serves measures the judge with them again before recheck is over, once somebody has measured it"},
		{Name: "recheck", Type: dur(time.Minute, longest), Default: `"7d"`, Reload: ReloadUse, Serves: "JDG-011", Doc: "how long a calibration holds; behind that the judge counts as one that was not calibrated, unless a host measures it again from anchors"},
		{Name: "drift", Type: number01(), Default: `0.15`, Reload: ReloadUse, Serves: "JDG-011", Doc: "by how much the agreement may fall before the judge is not asked any more"},
	},
}

// rubricBlock is what a judge grades.
var rubricBlock = Block{
	Name: "rubric", Label: LabelImplied, Doc: "what a judge grades: criteria for a model, rules for a program, or both",
	Attrs: []Attr{
		{Name: "version", Type: integer(1, most), Default: `1`, Reload: ReloadUse, Serves: "JDG-007", Doc: "another one makes older grades void"},
		{Name: "scale", Type: list(Type{Kind: KindNum}.between(-1_000_000, 1_000_000)).between(2, 2), Default: `[0, 1]`, Reload: ReloadUse, Serves: "JDG-003", Doc: "worst and best score that the judge is asked for"},
		{Name: "rules", Type: edntext, Reload: ReloadUse, Serves: "JDG-002", Doc: "what judge/rules looks at; held against the schema rubric/rules, if a plugin publishes it"},
	},
	Blocks: []Block{{
		Name: "criterion", Label: LabelIdent, Doc: "one question to the judge",
		Attrs: []Attr{
			{Name: "ask", Type: text, Required: true, Reload: ReloadUse, Serves: "JDG-001", Doc: "the question"},
			{Name: "weight", Type: Type{Kind: KindNum}.between(0.001, 1000), Default: `1`, Reload: ReloadUse, Serves: "JDG-001, JDG-002", Doc: "in the mean over all criteria"},
		},
	}},
}
