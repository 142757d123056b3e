return { status = "Missing" }
