// Package proof holds the histories that the processes of a chaos run write, and decides from them and from what the
// store contains in the end whether Pawl has kept its promises. It knows no store and starts no process: Check is a
// function of what was written down.
//
// Files in the order of reading: event.go is one line of a history and history.go the files, index.go puts the lines of
// all processes together by job, reservation and fault, proof.go is Check, and the others hold its rules.
package proof
