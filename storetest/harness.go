package storetest

import "github.com/pawljobs/pawl"

// Store is what the suite asks: the store that hosts work on and all that operators do to it.
type Store interface {
	pawl.Store
	pawl.Operator
}
