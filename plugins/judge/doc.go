// Command judge is the plugin that scores answers, under :eval/grade.
//
// Capability judge/rubric asks a model through the host, one question for each
// criterion of a rubric. It needs no network: the host selects the capability
// for :model/chat. The judged data reaches the model between lines that its
// author cannot know, without the names of its authors; a judge of the author's
// own model family rejects the request. Of two answers both orders are shown;
// if the choice changes with the order, it does not count.
//
// Capability judge/rules calls no model: it counts terms, numbers, quotations,
// headings and the like, and judges form only.
//
// A call returns one sample. Votes, cached verdicts and the weight of verdicts
// in a gate belong to the host.
package main
