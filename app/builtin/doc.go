// Package builtin has the kinds that every host of the program pawl can run, without a line of code of yours: a job that
// makes an HTTP request, and one that runs a command which the host's configuration names.
//
//	_, err := builtin.HTTPRequest.Enqueue(ctx, store, builtin.HTTPRequestArgs{
//		URL: "https://api.example.com/orders", JSON: json.RawMessage(`{"id": 7}`),
//	})
//
// Whoever can enqueue states what these jobs do, so what they can reach is for the host to say: hosts and networks for
// requests, a list of commands for commands. Both lists can be changed while jobs run.
package builtin
