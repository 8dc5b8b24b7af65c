package contract

// callErrors are the failures of requests, plans, answers and judges.
func callErrors() []Row {
	return []Row{
		row("invalid-request", ClassFinal, SourceRequest, false, 400,
			"the envelope of the request is wrong", "change the request where the message says").fromCapability(),
		row("input/invalid", ClassStop, SourceRequest, false, 400,
			"the capability refuses this input", "correct the input where the message says"),
		row("render/missing", ClassStop, SourceRequest, false, 400,
			"the template names a value that the input does not have", "add the value or remove the placeholder"),
		row("render/syntax", ClassStop, SourceRequest, false, 400,
			"the template cannot be read", "correct the template at the position in the details"),
		row("render/too-large", ClassStop, SourceRequest, false, 400,
			"the rendered text is beyond its limit", "shorten the template or its values"),
		row("text/nothing-to-summarize", ClassStop, SourceRequest, false, 400,
			"the text has no sentence to choose", "send a text with at least one sentence"),
		row("chess/game-over", ClassStop, SourceRequest, false, 400,
			"the game has ended: there is no move to find", "ask about a position with legal moves"),
		row("unsupported/intent", ClassFinal, SourceRequest, false, 422,
			"no capability may serve this intent", "the rejected candidates in the details say why each was left out").fromCapability(),
		row("cap/not-found", ClassStop, SourceRequest, false, 404,
			"a handle names a capability that no plugin provides", "name one that `ferment plugin list` shows"),

		row("plan/invalid", ClassStop, SourceRequest, false, 400,
			"the plan fails its static checks", "run `ferment check` on the plan: the findings have positions").
			otherwise(ClassRepair, true, 502, SourcePlugin),
		row("plan/too-deep", ClassFinal, SourceRequest, false, 400,
			"plans call plans beyond the depth limit", "look for a capability that answers with a call of itself").
			otherwise(ClassFinal, false, 502, SourcePlugin).fromCapability(),
		row("plan/too-large", ClassFinal, SourceRequest, false, 400,
			"the plan grows beyond the limit of nodes", "split the plan or narrow its maps").
			otherwise(ClassFinal, false, 502, SourcePlugin).fromCapability(),
		row("slot/unresolved", ClassStop, SourceRequest, false, 400,
			"a slot had no value when its node ran", "give the slot a :slot/default or the node a :when").
			otherwise(ClassStop, false, 502, SourcePlugin),

		row("schema/invalid", ClassRepair, SourcePlugin, true, 502,
			"the answer does not fit its schema", "the findings in the details list every place").or(SourceDownstream),
		row("format/drift", ClassRepair, SourcePlugin, true, 502,
			"the answer is not in the requested format", "send the request again, or use another model").or(SourceDownstream),
		row("eval/must-failed", ClassRepair, SourcePlugin, true, 502,
			"the answer failed a check that it must pass", "the findings in the details name the checks").or(SourceDownstream),
		row("eval/low-score", ClassRepair, SourcePlugin, true, 502,
			"the answer scores below the minimum", "the details have the score of each check").or(SourceDownstream),
		row("hallucinated/api", ClassRepair, SourcePlugin, true, 502,
			"the answer uses interfaces that do not exist", "the details list them").or(SourceDownstream),
		row("repair/exhausted", ClassSwitch, SourcePlugin, true, 502,
			"repairing the answer made no progress", "the cause is the last gate that failed").asCause(),

		row("judge/failed", ClassRetry, SourceDownstream, true, 502,
			"the judge gave no verdict", "`ferment explain` of the intent shows the judge"),
		row("judge/no-score", ClassRetry, SourceDownstream, true, 502,
			"the judge answered without a score",
			"let the judge answer with a number, or a map with :score").orClass(ClassSwitch),
		row("judge/score-out-of-range", ClassRetry, SourceDownstream, true, 502,
			"the score of the judge is outside its scale", "name the scale in the rubric"),
		row("judge/ambiguous-score", ClassRetry, SourceDownstream, true, 502,
			"the judge gave more than one score", "let the judge answer with one score"),
		row("judge/same-family", ClassSwitch, SourceHost, false, 502,
			"the judge belongs to the model family that it would judge", "bind a judge of another family"),
		row("judge/drift", ClassSwitch, SourceHost, false, 502,
			"the judge no longer agrees with its reference cases", "calibrate the judge or bind another"),
		row("judge/rubric-invalid", ClassStop, SourceRequest, false, 400,
			"the rubric cannot be used", "correct the rubric at the path in the details"),

		row("race/lost", ClassNone, SourceHost, false, 0,
			"another candidate answered first; this attempt was cancelled", ""),
		row("canceled", ClassFinal, SourceRequest, false, 409,
			"the caller or an operator cancelled the run", ""),
		row("breaker/open", ClassSwitch, SourceHost, true, 503,
			"every candidate is held back after repeated failures", "the details say when the first may be tried again"),
		row("route/decide-failed", ClassStop, SourceDownstream, true, 502,
			"the router gave no decision that can be used", "").asCause(),
	}
}
