package display

import (
	"fmt"
	"io"
	"strings"

	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
)

// lastWidth is the minimum width of the last column of a table.
const lastWidth = 30

// Table writes rows aligned under their headings. Text of the last column that does not fit is
// continued on the next lines; columns that do not fit are listed by name below the row. Words are
// not split. Control characters are escaped: labels and descriptions are texts of users.
func Table(w io.Writer, head []string, rows [][]string) error {
	width := make([]int, len(head))
	lines := [][]string{head}
	for _, row := range rows {
		shown := make([]string, len(row))
		for i, cell := range row {
			shown[i] = Printable(cell)
		}
		lines = append(lines, shown)
	}
	for _, row := range lines {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	shown, last := 0, 0 // columns side by side, and the start of the last one
	for at := 0; shown < len(head); shown++ {
		need := width[shown]
		if shown == len(head)-1 {
			need = min(need, lastWidth)
		}
		if shown > 0 && at+need > diag.Columns {
			break
		}
		last, at = at, at+width[shown]+2
	}
	var out strings.Builder
	for k, row := range lines {
		for i, cell := range row[:shown-1] {
			out.WriteString(cell + strings.Repeat(" ", width[i]-len([]rune(cell))+2))
		}
		out.WriteString(diag.Wrap(row[shown-1], last, last) + "\n")
		if k == 0 {
			continue
		}
		var more []string
		for i, cell := range row[shown:] {
			if cell != "" && cell != "-" {
				more = append(more, head[shown+i]+" "+cell)
			}
		}
		if len(more) > 0 {
			out.WriteString(diag.WrapLabeled("    ", strings.Join(more, "; ")) + "\n")
		}
	}
	for line := range strings.Lines(out.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
