// Package question composes questions to judging models and parses their answers.
//
// The task and answer shown to a model were written by others, possibly to influence the judge. So
// the names of the authors are removed (Blind), all data is between lines with a Mark that its
// author cannot know, and the instructions follow outside of them. The middle of a text that is too
// long is omitted, at ends of sentences.
//
// A verdict counts only if it is the whole answer of the model in the requested form, contains the
// Code of this question, and answers a control question correctly. A verdict that the model quotes
// or repeats from the data, or gives because the data demands it, is an error.
//
// Composer.Grade asks for a score for each criterion of a rubric, and ReadGrades parses the scores;
// Composer.Compare asks which of two answers is better by each criterion, and ReadChoices parses
// the choices. All functions are pure; the caller chooses mark and code.
package question
