// Package diagram draws a plan: nodes with their candidates and gates, and the
// edges between them.
//
// Of makes a Diagram, which is data, from a linked program and its environment.
// Value returns it for programs; Mermaid, DOT and SVG for people. Nested plans
// are boxes inside the box of their node. The output is deterministic: the same
// plan under the same configuration always gives the same bytes.
//
// SVG places the boxes itself, in layers from top to bottom (Sugiyama, Tagawa
// and Toda, "Methods for visual understanding of hierarchical system
// structures", 1981), so that no other program is needed to view a plan.
//
// All functions are pure; a Diagram must not be changed once it is shared.
package diagram
