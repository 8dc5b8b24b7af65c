package language

import "time"

// judgeBlock configures a judge and the calibration that it needs.
var judgeBlock = Block{
	Name: "judge", Label: LabelIdent,
	Doc: "a judge: its intent, its rubric, and the calibration that it needs to reject answers",
	Attrs: []Attr{
		{
			Name: "intent", Type: ref("intent"), Default: `"eval/grade"`, Reload: ReloadUse, Serves: "JDG-001",
			Doc: "intent that returns the grade",
		},
		{
			Name: "capability", Type: ref("capability"), Reload: ReloadUse, Serves: "JDG-001, JDG-002",
			Doc: "capability that is called first; default: the first candidate of the intent",
		},
		{
			Name: "rubric", Type: ref("rubric"), Reload: ReloadUse, Serves: "JDG-001",
			Doc: "rubric of the grade; default: the rubric of the judge itself",
		},
		{
			Name: "enabled", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "GATE-008",
			Doc: "false: the judge is not called",
		},
		{
			Name: "score_path", Type: list(text).between(1, 16), Default: `["score"]`, Reload: ReloadUse,
			Serves: "JDG-003",
			Doc:    "path of the score in the answer of the judge",
		},
		{
			Name: "max_attempts", Type: integer(1, 8), Default: `1`, Reload: ReloadUse, Serves: "JDG-008, BUD-003",
			Doc: "maximum number of attempts on one capability for one grade",
		},
		{
			Name: "votes", Type: integer(1, 9), Default: `3`, Reload: ReloadUse, Serves: "JDG-008",
			Doc: "maximum number of grades of an answer that fails by its first grade; grading ends when a majority agrees; " +
				"must be odd",
		},
		{
			Name: "on_error", Type: enum("finding", "ignore"), Default: `"finding"`, Reload: ReloadUse,
			Serves: "JDG-005",
			Doc: "finding: a failed judge call counts as a failed check; ignore: it does not count, and " +
				"neither do grades of an uncalibrated judge",
		},
		{
			Name: "allow_same_family", Type: boolean, Default: `false`, Reload: ReloadUse, Serves: "JDG-009",
			Doc: "a model may judge answers of a model of its own family",
		},
		{
			Name: "memo", Type: boolean, Default: `true`, Reload: ReloadUse, Serves: "JDG-007",
			Doc: "reuse the grade of an equal answer to an equal task; grades are kept in memory until " +
				"the host stops",
		},
		{
			Name: "min_kappa", Type: number01(), Default: `0.4`, Reload: ReloadUse, Serves: "JDG-011",
			Doc: "minimum agreement (Cohen's kappa) with labelled answers; a judge below it does not " +
				"reject answers by itself",
		},
		{
			Name: "anchors", Type: path, Reload: ReloadUse, Serves: "JDG-010",
			Doc: "file of labelled answers; a daemon recalibrates the judge with them before recheck " +
				"expires, if it has been calibrated once",
		},
		{
			Name: "recheck", Type: dur(time.Minute, longest), Default: `"7d"`, Reload: ReloadUse, Serves: "JDG-011",
			Doc: "lifetime of a calibration; an expired one counts as missing unless the daemon " +
				"recalibrates the judge from anchors",
		},
		{
			Name: "drift", Type: number01(), Default: `0.15`, Reload: ReloadUse, Serves: "JDG-011",
			Doc: "decrease of the agreement after which the judge is not called",
		},
	},
}

// rubricBlock configures what a judge grades.
var rubricBlock = Block{
	Name: "rubric", Label: LabelImplied, Doc: "what a judge grades: criteria for a model, rules for a program, or both",
	Attrs: []Attr{
		{
			Name: "version", Type: integer(1, most), Default: `1`, Reload: ReloadUse, Serves: "JDG-007",
			Doc: "a new version invalidates remembered grades",
		},
		{
			Name: "scale", Type: list(Type{Kind: KindNum}.between(-1_000_000, 1_000_000)).between(2, 2),
			Default: `[0, 1]`, Reload: ReloadUse, Serves: "JDG-003",
			Doc: "worst and best score that the judge may give",
		},
		{
			Name: "rules", Type: edntext, Reload: ReloadUse, Serves: "JDG-002",
			Doc: "rules of judge/rules; checked against the schema rubric/rules if a plugin advertises it",
		},
	},
	Blocks: []Block{{
		Name: "criterion", Label: LabelIdent, Doc: "one question to the judge",
		Attrs: []Attr{
			{
				Name: "ask", Type: text, Required: true, Reload: ReloadUse, Serves: "JDG-001",
				Doc: "text of the question",
			},
			{
				Name: "weight", Type: Type{Kind: KindNum}.between(0.001, 1000), Default: `1`, Reload: ReloadUse,
				Serves: "JDG-001, JDG-002",
				Doc:    "weight in the mean of all criteria",
			},
		},
	}},
}
