package sqlite

import (
	"strconv"

	"github.com/pawljobs/pawl"
)

// intList builds a JSON list of numbers, which a statement reads with json_each: one parameter for many rows.
type intList struct{ text []byte }

func (l *intList) add(n int64) {
	if len(l.text) == 0 {
		l.text = append(l.text, '[')
	} else {
		l.text = append(l.text, ',')
	}
	l.text = strconv.AppendInt(l.text, n, 10)
}

// json is the list. Nothing may be added after it.
func (l *intList) json() string {
	if len(l.text) == 0 {
		return "[]"
	}
	return string(append(l.text, ']'))
}

// reservationLists are the two parameters that stand for many reservations: a JSON list of the tokens, and one blob
// with the 16 bytes of each id.
func reservationLists(reservations []pawl.Reservation) (tokens string, ids []byte) {
	list := intList{make([]byte, 0, 12*len(reservations)+2)}
	ids = make([]byte, 0, 16*len(reservations))
	for i := range reservations {
		list.add(int64(reservations[i].Token))
		ids = append(ids, reservations[i].ID[:]...)
	}
	return list.json(), ids
}
