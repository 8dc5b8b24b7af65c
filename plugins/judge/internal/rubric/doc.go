// Package rubric parses rubrics: the criteria for judging an answer, with
// weights and scale.
//
// Parse validates a rubric and lists every problem with its path as a
// :judge/rubric-invalid. A Rubric is immutable and safe for concurrent use.
// Rotated returns the criteria in another order for another sample, and Mean
// the weighted mean of the criteria's scores.
package rubric
