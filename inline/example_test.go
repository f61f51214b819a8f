package inline_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/inline"
)

type welcomeArgs struct {
	UserID int64 `json:"user_id"`
}

func ExampleNew() {
	welcome := pawl.NewKind[welcomeArgs]("email.welcome.v1", pawl.Policy{})
	errUnknownUser := errors.New("unknown user")

	mux := pawl.NewMux()
	pawl.Handle(mux, welcome, func(_ context.Context, args welcomeArgs) error {
		if args.UserID == 0 {
			return pawl.Permanent(errUnknownUser)
		}
		fmt.Println("welcome, user", args.UserID)
		return nil
	})
	jobs, err := inline.New(mux, inline.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_, err = welcome.Enqueue(ctx, jobs, welcomeArgs{UserID: 7})
	fmt.Println(err)
	_, err = welcome.Enqueue(ctx, jobs, welcomeArgs{})
	fmt.Println(errors.Is(err, errUnknownUser))
	// Output:
	// welcome, user 7
	// <nil>
	// true
}
