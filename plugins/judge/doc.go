// Command judge is the plugin that gives answers a score, under :eval/grade.
//
// Capability judge/rubric asks a model through the host, one question for each
// criterion of a rubric. It needs no network: who answers :model/chat is for the
// host to say. What is judged reaches the model as data between lines that its
// author cannot know, without the names of who wrote it; a judge of the author's
// own model family refuses. Of two answers both orders are shown, and a judge who
// changes its mind with the order has not chosen.
//
// Capability judge/rules asks nobody: it counts terms, numbers, quotations,
// headings and the like, and sees nothing but form.
//
// A call answers one sample. Votes, the memory of verdicts and their weight in a
// gate are the host's.
package main
