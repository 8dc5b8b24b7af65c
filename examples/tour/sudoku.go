package main

import (
	"fmt"
	"strings"
)

// puzzle is the sudoku of the tour: rows from the top, 0 for an empty cell.
var puzzle = [9][9]int{
	{5, 3, 0, 0, 7, 0, 0, 0, 0},
	{6, 0, 0, 1, 9, 5, 0, 0, 0},
	{0, 9, 8, 0, 0, 0, 0, 6, 0},
	{8, 0, 0, 0, 6, 0, 0, 0, 3},
	{4, 0, 0, 8, 0, 3, 0, 0, 1},
	{7, 0, 0, 0, 2, 0, 0, 0, 6},
	{0, 6, 0, 0, 0, 0, 2, 8, 0},
	{0, 0, 0, 4, 1, 9, 0, 0, 5},
	{0, 0, 0, 0, 8, 0, 0, 7, 9},
}

// variable returns the number, 1..729, of the variable "the cell holds the digit". Rows and columns
// count from 0, digits from 1.
func variable(row, column, digit int) int { return row*81 + column*9 + digit }

// formula returns the rules of sudoku and the given cells as DIMACS text.
func formula(grid [9][9]int) string {
	var clauses [][]int
	add := func(literals ...int) { clauses = append(clauses, literals) }
	for a := range 9 {
		for b := range 9 {
			var cell, row, column, box []int
			for d := 1; d <= 9; d++ {
				cell = append(cell, variable(a, b, d)) // some digit in the cell
				for e := 1; e < d; e++ {
					add(-variable(a, b, d), -variable(a, b, e)) // and only one
				}
			}
			for c := range 9 {
				row = append(row, variable(a, c, b+1)) // digit b+1 somewhere in row a
				column = append(column, variable(c, a, b+1))
				box = append(box, variable(a/3*3+c/3, a%3*3+c%3, b+1))
			}
			add(cell...)
			add(row...)
			add(column...)
			add(box...)
			if d := grid[a][b]; d > 0 {
				add(variable(a, b, d))
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "c a sudoku\np cnf 729 %d\n", len(clauses))
	for _, clause := range clauses {
		for _, literal := range clause {
			fmt.Fprintf(&out, "%d ", literal)
		}
		out.WriteString("0\n")
	}
	return out.String()
}

// solved returns the grid of a model of the formula. The error reports a cell that is empty or that
// differs from the puzzle.
func solved(model []int) ([9][9]int, error) {
	var grid [9][9]int
	for _, literal := range model {
		if literal > 0 {
			v := literal - 1
			grid[v/81][v/9%9] = v%9 + 1
		}
	}
	for r := range 9 {
		for c := range 9 {
			if grid[r][c] == 0 || (puzzle[r][c] != 0 && grid[r][c] != puzzle[r][c]) {
				return grid, fmt.Errorf("cell %d,%d holds %d", r+1, c+1, grid[r][c])
			}
		}
	}
	return grid, nil
}

// draw returns a grid as text, one line for each row, with lines between the boxes.
func draw(grid [9][9]int) string {
	var b strings.Builder
	for r, row := range grid {
		if r > 0 && r%3 == 0 {
			b.WriteString("  ------+-------+------\n")
		}
		b.WriteString(" ")
		for c, digit := range row {
			if c > 0 && c%3 == 0 {
				b.WriteString(" |")
			}
			fmt.Fprintf(&b, " %d", digit)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
