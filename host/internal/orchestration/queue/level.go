package queue

import "slices"

// level holds the waiting places of one priority: a FIFO per principal, and the
// principals in round-robin order. The zero value is empty.
type level struct {
	turns  []string // principals with places; the first is next
	places map[string][]*Place
}

func (l *level) add(p *Place) {
	if l.places == nil {
		l.places = map[string][]*Place{}
	}
	if len(l.places[p.entry.Principal]) == 0 {
		l.turns = append(l.turns, p.entry.Principal)
	}
	l.places[p.entry.Principal] = append(l.places[p.entry.Principal], p)
}

// take removes and returns the next place; nil if the level is empty.
func (l *level) take() *Place {
	if len(l.turns) == 0 {
		return nil
	}
	who := l.turns[0]
	p := l.places[who][0]
	l.places[who][0] = nil
	l.places[who] = l.places[who][1:]
	l.turns = l.turns[1:]
	if len(l.places[who]) > 0 {
		l.turns = append(l.turns, who)
	} else {
		delete(l.places, who)
	}
	return p
}

// remove removes a waiting place, in any position.
func (l *level) remove(p *Place) {
	all := slices.DeleteFunc(l.places[p.entry.Principal], func(x *Place) bool { return x == p })
	if l.places[p.entry.Principal] = all; len(all) == 0 {
		delete(l.places, p.entry.Principal)
		l.turns = slices.DeleteFunc(l.turns, func(who string) bool { return who == p.entry.Principal })
	}
}
