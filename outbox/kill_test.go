package outbox_test

func childRole() bool { return false }
