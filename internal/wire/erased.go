package wire

import "github.com/pawljobs/pawl"

// Erased is what an erase has found, and done unless it was a dry run.
type Erased struct {
	Letters  int          `json:"letters" doc:"erased"`
	History  int          `json:"history" doc:"finished jobs, erased"`
	Removed  int          `json:"removed" doc:"jobs that had not ended, removed and erased"`
	Stopping int          `json:"stopping" doc:"jobs that run, asked to stop: erase them again"`
	Left     int          `json:"left" doc:"jobs that have not ended, left as they are"`
	Before   int          `json:"before" doc:"letters and finished jobs that had been erased already"`
	Sample   []ErasedItem `json:"sample" doc:"some of what is, or was, erased"`
	Residue  Text         `json:"residue" doc:"where the bytes may still lie for a while"`
}

// ErasedItem is one of what was erased.
type ErasedItem struct {
	What string  `json:"what" doc:"letter, finished job or job"`
	ID   pawl.ID `json:"id" doc:"its id"`
	Kind string  `json:"kind" doc:"of the job"`
	At   Stamp   `json:"at" doc:"of its enqueue"`
}

// ErasedOf is its form.
func ErasedOf(e pawl.Erased) Erased {
	return Erased{
		e.Letters, e.History, e.Removed, e.Stopping, e.Left, e.Before,
		Each(e.Sample, func(i pawl.ErasedItem) ErasedItem { return ErasedItem{i.What, i.ID, i.Kind, Stamp(i.At)} }), Text(e.Residue),
	}
}

// Read reads the form.
func (e Erased) Read() pawl.Erased {
	return pawl.Erased{
		Letters: e.Letters, History: e.History, Removed: e.Removed, Stopping: e.Stopping, Left: e.Left, Before: e.Before,
		Sample: Each(e.Sample, func(i ErasedItem) pawl.ErasedItem {
			return pawl.ErasedItem{What: i.What, ID: i.ID, Kind: i.Kind, At: i.At.Time()}
		}),
		Residue: string(e.Residue),
	}
}
