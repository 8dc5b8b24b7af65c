// Package ignore decides which paths of a workspace are ignored, exactly as git
// does.
//
// A [List] holds the patterns of one source, such as a .gitignore file. [Rules]
// are the lists that apply to a whole workspace. A [Dir] adds the lists of the
// directories from the root down to one directory; [Dir.Match] returns the
// pattern that decides about an entry of it. Precedence, from high to low: the
// lists of Rules.Above, those of directories, deeper ones first, those of
// Rules.Below; in one list the last pattern that matches. An [Explainer]
// decides about paths from the root on and names the pattern, as git check-ignore
// does.
//
// The pattern language is implemented from git's behaviour, including the parts
// that its manual does not describe. Matching is case-sensitive, and its time is
// bounded for any pattern.
//
// All types but Explainer are immutable and safe for concurrent use. Every text is a
// list; [Check] refuses a pattern that matches nothing.
package ignore
