// Package diagram draws a plan: its nodes with candidates and gates, and what
// waits for what.
//
// Of makes a Diagram, which is data, from a linked program and what surrounds
// it; Value gives it to programs, and Mermaid, DOT and SVG to people. Nested
// plans are boxes inside the box of their node. The same plan under the same
// configuration always gives the same bytes.
//
// SVG places the boxes itself, in layers from top to bottom (Sugiyama, Tagawa
// and Toda, "Methods for visual understanding of hierarchical system
// structures", 1981), so that no other program is needed to look at a plan.
//
// Everything here is pure; a Diagram must not be changed once it is shared.
package diagram
