#error "included by nothing"
