// Package question puts answers before a model that judges them, and reads what
// the model says.
//
// What a model is shown of a task and an answer was written by others, and some
// of them write for the judge. So the names of who wrote it are taken out
// (Blind), everything stands between lines with a Mark that its author cannot
// know, and what is to be done stands outside, behind it. A text that is too long
// is cut in its middle, at ends of sentences.
//
// A verdict counts only if it is the whole answer of the model in the form that was
// asked for, carries the Code of this question, and answers a control question
// whose answer is known: a verdict that the model quotes or repeats from the data,
// and one that it gives because the data says so, is an error.
//
// Composer.Grade asks for a score for each criterion of a rubric, and ReadGrades
// reads the scores; Composer.Compare asks which of two answers is better by each
// criterion, and ReadChoices reads that. Everything is pure; mark and code are given.
package question
