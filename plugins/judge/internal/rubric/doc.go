// Package rubric reads rubrics: what an answer is judged by, with which weights
// and on which scale.
//
// Parse checks a rubric and lists every problem with its path as a
// :judge/rubric-invalid. A Rubric never changes and is safe for concurrent use;
// Rotated gives the criteria in another order for another sample, and Mean the
// score that the scores of the criteria come to.
package rubric
