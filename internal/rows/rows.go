// Package rows reads the answer to a query row by row, whatever driver has it.
package rows

// Rows is what is asked of an answer, which its reader closes.
type Rows interface {
	Next() bool
	Err() error
}

// All reads all rows.
func All[R Rows, T any](answer R, scan func(R) (T, error)) ([]T, error) {
	var all []T
	for answer.Next() {
		one, err := scan(answer)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, answer.Err()
}

// First is the first of the rows that were read, if there is one.
func First[T any](all []T, err error) (one T, found bool, _ error) {
	if err != nil || len(all) == 0 {
		return one, false, err
	}
	return all[0], true, nil
}
