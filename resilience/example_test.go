package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/resilience"
)

func ExampleNewClient() {
	flaky := 0
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if flaky++; flaky < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "an avatar")
	}))
	defer cdn.Close()

	client, err := resilience.NewClient("cdn", resilience.Options{Delay: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.CloseIdleConnections()

	fetch := func(ctx context.Context) error { // a handler's call
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, cdn.URL+"/avatars/7", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		if err := classify.Response(response); err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		fmt.Println(string(body))
		return err
	}
	fmt.Println(fetch(context.Background()))
	fmt.Println(resilience.Of(client).Stats().Failures, "attempts failed")
	// Output:
	// an avatar
	// <nil>
	// 2 attempts failed
}

// The ladder is checked when it is built.
func ExampleNewClient_ladder() {
	_, err := resilience.NewClient("cdn", resilience.Options{Attempt: 100 * time.Second})
	fmt.Println(err)
	_, err = resilience.NewClient("cdn", resilience.Options{Delay: time.Minute})
	fmt.Println(err)
	// Output:
	// new downstream "cdn": invalid attempt "1m40s": the attempt timeout must be shorter than the total timeout (1m30s), which would cut it off
	// new downstream "cdn": invalid delay "1m0s": the wait before retry 1 would be 1m0s, above 5s: two layers of long retries multiply, here to 4 attempts x 6 tries of the job = 24 calls, while a worker waits; leave long waits to the job's retry curve
}

func ExampleDownstream_Do() {
	directory, err := resilience.New("ldap", resilience.Options{
		Delay: time.Millisecond, Classifiers: []pawl.Classifier{classify.Default()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	attempts := 0
	err = directory.Do(context.Background(), func(context.Context) error {
		if attempts++; attempts == 1 {
			return errors.New("connection lost")
		}
		return pawl.Permanent(errors.New("no such entry"))
	})
	fmt.Println(attempts, err, pawl.ClassOf(err))
	// Output: 2 no such entry permanent
}

func ExampleSMTP() {
	mail, err := resilience.New("mail", resilience.SMTP())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = mail.Do(context.Background(), func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		fmt.Println("sending, for at most", time.Until(deadline).Round(time.Second))
		return nil
	})
	fmt.Println(err)
	// Output:
	// sending, for at most 30s
	// <nil>
}
