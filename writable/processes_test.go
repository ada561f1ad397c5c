package writable_test

const roleEnv = "RULEWIRE_TEST_ROLE"

func play() int { return 0 }
