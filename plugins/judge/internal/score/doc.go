// Package score reads scores out of what judges say.
//
// A Reader takes a score from where judges put it: a number, a text that is one,
// a map, or JSON or EDN within a text, and maps it from the scale of the judge to
// 0..1. It never guesses: what holds no score, two scores, or one outside of the
// scale is an error, because a wrong score is worse than none. Values gives the
// values that a text holds, for judges that say more than a number.
//
// Scores are exact rationals until they are rounded once, half to even, to
// thousandths; reading what Rounded printed gives the same score. Everything is
// pure and safe for concurrent use. The errors are :judge/no-score,
// :judge/score-out-of-range and :judge/ambiguous-score.
package score
