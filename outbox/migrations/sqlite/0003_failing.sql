create index {i:failing:i} on {t} (connection, seq) where ended_at is null and attempts > 0;
