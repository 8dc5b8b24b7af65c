package plan

import "fmt"

// Render returns the finding on one line, after the name of the text.
func (f Finding) Render(source string) string {
	if f.Line > 0 {
		source = fmt.Sprintf("%s:%d:%d", source, f.Line, f.Column)
	}
	return fmt.Sprintf("%s: %s %s %s", source, f.Severity, f.Check, f.Message)
}

// Program returns the program that the frame belongs to.
func (f *Frame) Program() *Program { return f.prog }

// Slot returns the slot of a node.
func (f *Frame) Slot(node int) Slot { return f.slots[node] }
