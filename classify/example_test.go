package classify_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"syscall"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/host"
)

// A service adds a rule of its own to the chain that its host asks.
func ExampleDefault() {
	errNoCredit := errors.New("account has no credit")
	chain := classify.Default(func(err error) pawl.Class {
		if err == errNoCredit {
			return pawl.ClassPermanent
		}
		return pawl.ClassUnknown
	})
	_ = host.Config{Classifiers: []pawl.Classifier{chain}}

	for _, err := range []error{
		fmt.Errorf("charge: %w", errNoCredit),
		fmt.Errorf("send mail: %w", &textproto.Error{Code: 550, Msg: "no such user"}),
		fmt.Errorf("send mail: %w", &textproto.Error{Code: 451, Msg: "try later"}),
		errors.Join(errors.New("upload"), syscall.ECONNRESET),
		errors.New("something else"),
	} {
		fmt.Println(chain(err))
	}
	// Output:
	// permanent
	// permanent
	// transient
	// transient
	// unknown
}

func ExampleOn() {
	type refusal struct{ error } // an error type of some driver
	chain := classify.Chain(classify.On(func(refusal) pawl.Class { return pawl.ClassPermanent }))
	fmt.Println(chain(fmt.Errorf("insert: %w", refusal{errors.New("no")})))
	// Output: permanent
}

func ExampleResponse() {
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error": "slow down", "token": "abcdef"}`)
	}))
	defer cdn.Close()

	upload := func() error {
		response, err := cdn.Client().Get(cdn.URL + "/avatars/7")
		if err != nil {
			return err
		}
		if err := classify.Response(response); err != nil {
			return err
		}
		defer response.Body.Close()
		return nil // read the body
	}
	err := upload()
	var status *classify.StatusError
	fmt.Println(errors.As(err, &status), status.Status, status.Excerpt)
	var classified *pawl.ClassifiedError
	fmt.Println(errors.As(err, &classified), classified.Class, classified.After)
	// Output:
	// true 429 {"error": "slow down", "token": (not shown)}
	// true transient 2m0s
}
