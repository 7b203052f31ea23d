"""Excel: sheets of workbooks (`.xlsx`, `.xlsm`), whose cells have types of their own."""
